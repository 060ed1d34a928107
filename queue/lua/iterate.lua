-- include: job
-- iterate.lua: the scheduler's next iteration, made by whoever took the pending one. The caller has computed it; nothing happens if the
-- scheduler has moved on meanwhile.
--
-- KEYS[1]  queue base
-- ARGV     1 scheduler id   2 ms of the pending iteration as the caller knows it   3 ms of the next one   4 now ms
--          5 opts of the next job (JSON)   6 data to use if the scheduler has none (JSON)   7 priority   8 "1" = front of the list
-- Returns  1 made | 0 it was there already | -1 the scheduler is gone or has moved on
local q, scheduler, slot, now = KEYS[1], ARGV[1], ARGV[3], tonumber(ARGV[4])
local key = q .. "repeat:" .. scheduler

if redis.call("ZSCORE", q .. "repeat", scheduler) ~= ARGV[2] then
  return -1
end
local id = "repeat:" .. scheduler .. ":" .. slot
if redis.call("EXISTS", q .. id) == 1 then
  emit_trimmed(q, "duplicated", "jobId", id)
  return 0
end
redis.call("ZADD", q .. "repeat", slot, scheduler)
redis.call("HINCRBY", key, "ic", 1)
redis.call("INCR", q .. "id")
max_events(q)

local made = redis.call("HMGET", key, "name", "data")
local delay = math.max(tonumber(slot) - now, 0)
write_job(q, id, {
  name = made[1] or "", data = made[2] or ARGV[6], opts = ARGV[5], timestamp = now, delay = delay, priority = ARGV[7],
  scheduler = scheduler,
})
enqueue(q, id, now, delay, tonumber(ARGV[7]), ARGV[8] == "1")
return 1
