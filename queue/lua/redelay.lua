-- include: place
-- redelay.lua: a delayed job gets another delay, counted from now.
--
-- KEYS[1]  queue base
-- ARGV     1 id   2 now ms   3 delay ms
-- Returns  0 | -1 no such job | -3 not delayed
local q, id, due = KEYS[1], ARGV[1], tonumber(ARGV[2]) + tonumber(ARGV[3])

if redis.call("EXISTS", q .. id) == 0 then
  return -1
end
if not redis.call("ZSCORE", q .. "delayed", id) then
  return -3
end
-- Without taking it out first: like BullMQ a job that is due in the same millisecond as before goes behind itself.
schedule(q, id, due)
redis.call("HSET", q .. id, "delay", ARGV[3])
emit_trimmed(q, "delayed", "jobId", id, "delay", due)
wake_at_due(q)
return 0
