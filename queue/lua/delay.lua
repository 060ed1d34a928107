-- include: lock
-- include: take
-- delay.lua: an active job is put off, either after a failed attempt or because its handler wants so.
--
-- KEYS[1]  queue base
-- ARGV     1 id   2 now ms   3 token   4 delay ms   5 "1" = no attempt is spent
--          6 "1" = take the next job in the same step, by 7 lock ms, 8 worker name, 9 limiter max, 10 limiter duration
--         11… fields of the job: name, value, …
-- Returns  0 | the answer of take() if it is a job | -1 no such job | -2 no lock | -3 not active | -6 another's lock
local q, id, now, delay = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])

redis.call("ZCARD", q .. "delayed")
local fault = leave_active(q, id, ARGV[3], 11)
if fault < 0 then
  return fault
end
if ARGV[5] ~= "1" then
  redis.call("HINCRBY", q .. id, "atm", 1)
end
redis.call("HSET", q .. id, "delay", ARGV[4])
schedule(q, id, now + delay)
emit_trimmed(q, "delayed", "jobId", id, "delay", now + delay)

if ARGV[6] == "1" then
  local got = take(q, {
    now = ARGV[2], token = ARGV[3], lock_ms = ARGV[7], worker = ARGV[8], max = ARGV[9], duration = ARGV[10],
  }, 1)
  if got[1] == "full" then
    return got
  end
end
wake_at_due(q)
return 0
