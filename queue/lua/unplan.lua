-- include: job
-- unplan.lua: removes a job scheduler and its pending iteration, if that still is delayed.
--
-- KEYS[1]  queue base
-- ARGV     1 scheduler id
-- Returns  0 | 1 there is no such scheduler
local q, scheduler = KEYS[1], ARGV[1]

local pending = redis.call("ZSCORE", q .. "repeat", scheduler)
if not pending then
  return 1
end
local id = "repeat:" .. scheduler .. ":" .. pending
if redis.call("ZREM", q .. "delayed", id) == 1 then
  drop_keys(q .. id)
  emit(q, "removed", "jobId", id, "prev", "delayed")
end
redis.call("ZREM", q .. "repeat", scheduler)
redis.call("DEL", q .. "repeat:" .. scheduler)
return 0
