-- include: family
-- obliterate.lua: a step of deleting a paused queue with everything in it. Parents that wait for children in other queues stay, and so
-- does a running rate limit.
--
-- KEYS[1]  queue base
-- ARGV     1 how many jobs at most   2 "1" = also jobs that run
-- Returns  0 done | 1 call again | 2 the queue is not paused | 3 jobs are running
local q, left = KEYS[1], tonumber(ARGV[1])

if redis.call("HEXISTS", q .. "meta", "paused") == 0 then
  return 2
end

-- each erases members of a list or set until it is empty (true) or the step is used up.
local function each(key, read, drop, extra)
  local ids = left > 0 and read(key) or {}
  for _, id in ipairs(ids) do
    drop(key, id)
    erase(q, id, true)
    if extra then
      extra(id)
    end
  end
  left = left - #ids
  return redis.call("EXISTS", key) == 0
end

local function of_list(key)
  return redis.call("LRANGE", key, 0, left - 1)
end

local function of_set(key)
  return redis.call("ZRANGE", key, 0, left - 1)
end

local function off_list(key, id)
  redis.call("LREM", key, 1, id)
end

local function off_set(key, id)
  redis.call("ZREM", key, id)
end

if redis.call("LLEN", q .. "active") > 0 and ARGV[2] ~= "1" then
  return 3
end

local done = each(q .. "active", of_list, off_list, function(id)
  redis.call("DEL", q .. id .. ":lock")
end) and each(q .. "delayed", of_set, off_set)
if not done then
  return 1
end

for _, scheduler in ipairs(redis.call("ZRANGE", q .. "repeat", 0, -1)) do
  redis.call("DEL", q .. "repeat:" .. scheduler)
end
redis.call("DEL", q .. "repeat")

done = each(q .. "completed", of_set, off_set) and each(q .. "wait", of_list, off_list) and each(q .. "paused", of_list, off_list)
  and each(q .. "prioritized", of_set, off_set) and each(q .. "failed", of_set, off_set)
if not done then
  return 1
end

redis.call("DEL", q .. "events", q .. "delay", q .. "stalled-check", q .. "stalled", q .. "id", q .. "pc", q .. "marker", q .. "meta",
  q .. "metrics:completed", q .. "metrics:completed:data", q .. "metrics:failed", q .. "metrics:failed:data")
return 0
