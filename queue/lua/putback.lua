-- include: lock
-- putback.lua: an active job goes back to where it is served next; no attempt is spent.
--
-- KEYS[1]  queue base
-- ARGV     1 id   2 token   3 "1" = wake a worker also for a prioritised job (BullMQ does not)
-- Returns  how many ms the rate limit still runs, or 0 | -1 no such job | -2 no lock | -3 not active | -6 another's lock
local q, id = KEYS[1], ARGV[1]

redis.call("ZCARD", q .. "prioritized")
local fault = leave_active(q, id, ARGV[2], 4)
if fault < 0 then
  return fault
end
local priority = tonumber(redis.call("HGET", q .. id, "priority")) or 0
if priority > 0 then
  redis.call("ZADD", q .. "prioritized", priority * 4294967296, id)
  if ARGV[3] == "1" then
    wake(q)
  end
else
  put(q, id, 0, true)
end
emit_trimmed(q, "waiting", "jobId", id, "prev", "active")
return math.max(redis.call("PTTL", q .. "limiter"), 0)
