-- include: job
-- stalled.lua: jobs that were active at the last check, have not been renewed since and have no lock go back to wait. Who stalled too
-- often is marked, so that the next worker that takes it fails it.
--
-- KEYS[1]  queue base
-- ARGV     1 now ms   2 ms between two checks of the whole queue   3 how many times a job may stall
--          4 "1" = go on with a check that left suspects over
-- Returns  {ms until the next check may run, {recovered ids}, {ids thrown away because they had no hash}, suspects left over}
local q, most = KEYS[1], tonumber(ARGV[3])

if ARGV[4] ~= "1" then
  local left = redis.call("PTTL", q .. "stalled-check")
  if left ~= -2 then
    return { left, {}, {}, 0 }
  end
  redis.call("LLEN", waiting_list(q))
  redis.call("LLEN", q .. "active")
  redis.call("SCARD", q .. "stalled")
  trim_events(q)
  redis.call("SET", q .. "stalled-check", ARGV[1], "PX", ARGV[2])
end

-- A great many suspects are looked into in several steps, between which others get their turn. Should the caller die, those left over
-- are still in the set at the next check.
local suspects = redis.call("SPOP", q .. "stalled", 2000)

-- Taking ids off a long list one by one would be quadratic; many suspects are taken off in one pass.
local function active_remover()
  if #suspects < 100 then
    return function(id)
      return redis.call("LREM", q .. "active", 1, id) == 1
    end, function() end
  end
  local count, gone, all = {}, {}, redis.call("LRANGE", q .. "active", 0, -1)
  for _, id in ipairs(all) do
    count[id] = (count[id] or 0) + 1
  end
  return function(id)
    if not count[id] then
      return false
    end
    gone[id] = true
    return true
  end, function()
    local stay = {}
    for _, id in ipairs(all) do
      if not gone[id] then
        stay[#stay + 1] = id
      end
    end
    redis.call("DEL", q .. "active")
    for i = 1, #stay, 5000 do
      redis.call("RPUSH", q .. "active", unpack(stay, i, math.min(i + 4999, #stay)))
    end
  end
end

-- is_iteration: a scheduler still stands behind the job; those are never failed for stalling.
local function is_iteration(id)
  local scheduler = redis.call("HGET", q .. id, "rjk")
  return scheduler and (redis.call("EXISTS", q .. "repeat:" .. scheduler) == 1
    or redis.call("ZSCORE", q .. "repeat", scheduler))
end

local recovered, thrown = {}, {}
local take_off, flush = active_remover()
for _, id in ipairs(suspects) do
  if string.sub(id, 1, 2) == "0:" then
    take_off(id)
  elseif redis.call("EXISTS", q .. id .. ":lock") == 0 and take_off(id) then
    local fields = try("HLEN", q .. id)
    if fields == 0 then
      thrown[#thrown + 1] = id
      drop_keys(q .. id)
    elseif fields then
      recovered[#recovered + 1] = id
    else
      thrown[#thrown + 1] = id
    end
  end
end
flush()

for _, id in ipairs(recovered) do
  local times = redis.call("HINCRBY", q .. id, "stc", 1)
  if times > most and not is_iteration(id) then
    redis.call("HSET", q .. id, "defa", "job stalled more than allowable limit")
  end
  push(q, id, true)
  emit(q, "waiting", "jobId", id, "prev", "active")
  emit(q, "stalled", "jobId", id)
end
if #recovered > 0 then
  wake(q)
end

local rest = redis.call("SCARD", q .. "stalled")
if rest > 0 then
  return { tonumber(ARGV[2]), recovered, thrown, rest }
end
local active = redis.call("LRANGE", q .. "active", 0, -1)
for i = 1, #active, 5000 do
  redis.call("SADD", q .. "stalled", unpack(active, i, math.min(i + 4999, #active)))
end
return { tonumber(ARGV[2]), recovered, thrown, 0 }
