-- include: family
-- include: schedules
-- clean.lua: removes old jobs of one state.
--
-- KEYS[1]  queue base
-- ARGV     1 jobs up to this ms are old   2 how many at most, 0 = all   3 wait | paused | active | delayed | prioritized | completed | failed
-- Returns  their ids
local q, limit, state = KEYS[1], tonumber(ARGV[2]), ARGV[3]
local till, key = tonumber(ARGV[1]), KEYS[1] .. ARGV[3]
local protected, removed = pending_iterations(q), {}

-- age_of is the moment that counts for the state; a hash without any is as old as can be.
local function age_of(id)
  local at = redis.call("HMGET", q .. id, "finishedOn", "processedOn", "timestamp")
  if state == "delayed" then
    return tonumber(at[2]) or tonumber(at[3]) or 0
  end
  if state == "prioritized" then
    return tonumber(at[3]) or 0
  end
  return tonumber(at[1]) or tonumber(at[2]) or tonumber(at[3]) or 0
end

local function old(id)
  if state == "active" and redis.call("EXISTS", q .. id .. ":lock") == 1 then
    return false
  end
  return not protected[id] and age_of(id) <= till
end

local function full()
  return limit > 0 and #removed >= limit
end

local function drop(ids, off)
  for _, id in ipairs(ids) do
    off(id)
    erase(q, id, true)
  end
end

if state == "completed" or state == "failed" then
  removed = redis.call("ZRANGEBYSCORE", key, "-inf", till, "LIMIT", 0, limit > 0 and limit or -1)
  drop(removed, function(id)
    redis.call("ZREM", key, id)
  end)
elseif state == "delayed" or state == "prioritized" then
  for _, id in ipairs(redis.call("ZRANGE", key, 0, -1)) do
    if not full() and old(id) then
      removed[#removed + 1] = id
    end
  end
  drop(removed, function(id)
    redis.call("ZREM", key, id)
  end)
else
  local ids = redis.call("LRANGE", key, 0, -1)
  for i = #ids, 1, -1 do
    if not full() and old(ids[i]) then
      removed[#removed + 1] = ids[i]
    end
  end
  drop(removed, function(id)
    redis.call("LREM", key, -1, id)
  end)
end

emit(q, "cleaned", "count", #removed)
return removed
