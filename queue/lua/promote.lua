-- include: place
-- promote.lua: a delayed job is due now.
--
-- KEYS[1]  queue base
-- ARGV     1 id
-- Returns  0 | -1 no such job | -3 not delayed
local q, id = KEYS[1], ARGV[1]

local priority = tonumber(redis.call("HGET", q .. id, "priority")) or 0
redis.call("LLEN", waiting_list(q))
redis.call("ZSCORE", q .. "prioritized", id)
trim_events(q)
if redis.call("ZREM", q .. "delayed", id) == 0 then
  return -3
end
if redis.call("EXISTS", q .. id) == 0 then
  return -1
end
put(q, id, priority, false)
emit(q, "waiting", "jobId", id, "prev", "delayed")
redis.call("HSET", q .. id, "delay", 0)
return 0
