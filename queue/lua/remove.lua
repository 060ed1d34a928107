-- include: family
-- include: schedules
-- remove.lua: a job and, if asked, its children disappear; or only those of its children that have not run.
--
-- KEYS[1]  queue base
-- ARGV     1 id   2 "1" = with its children, "pending" = only its pending children, but for those that run or have failed
-- Returns  1 (also if there is no such job) | 0 it or a child runs | -8 the pending iteration of a scheduler
local q, with_children, only_pending = KEYS[1], ARGV[2] == "1", ARGV[2] == "pending"

local function split(key)
  return string.match(key, "^(.*:)([^:]*)$")
end

-- locked: the job or a pending job below it runs.
local function locked(base, id)
  if redis.call("EXISTS", base .. id .. ":lock") == 1 then
    return true
  end
  if with_children then
    for _, child in ipairs(redis.call("SMEMBERS", base .. id .. ":dependencies")) do
      if locked(split(child)) then
        return true
      end
    end
  end
  return false
end

-- leave takes the id out of the state it is in and answers its name.
local function leave(base, id)
  for _, set in ipairs({ "completed", "failed", "delayed", "prioritized", "waiting-children" }) do
    if redis.call("ZREM", base .. set, id) == 1 then
      return set
    end
  end
  for _, list in ipairs({ "wait", "paused", "active" }) do
    if redis.call("LREM", base .. list, 0, id) > 0 then
      return list
    end
  end
  return "unknown"
end

local remove

local function remove_children(job)
  local groups = {
    redis.call("HKEYS", job .. ":processed"), redis.call("HKEYS", job .. ":failed"),
    redis.call("ZRANGE", job .. ":unsuccessful", 0, -1), redis.call("SMEMBERS", job .. ":dependencies"),
  }
  for _, children in ipairs(groups) do
    for _, child in ipairs(children) do
      remove(split(child))
    end
  end
end

local function remove_pending(job)
  for _, child in ipairs(redis.call("SMEMBERS", job .. ":dependencies")) do
    local base, id = split(child)
    if redis.call("EXISTS", child .. ":lock") == 0 and not redis.call("ZSCORE", base .. "failed", id) then
      remove(base, id)
    end
  end
end

remove = function(base, id)
  local job = base .. id
  child_gone(base, job, false)
  if with_children then
    remove_children(job)
  elseif only_pending then
    remove_pending(job)
  end
  local prev = leave(base, id)
  dedup_dropped(base, job, id)
  if drop_keys(job) > 0 then
    emit_trimmed(base, "removed", "jobId", id, "prev", prev)
  end
end

if only_pending then
  remove_pending(q .. ARGV[1])
  return 1
end
if is_pending_iteration(q, ARGV[1]) then
  return -8
end
if locked(q, ARGV[1]) then
  return 0
end
remove(q, ARGV[1])
return 1
