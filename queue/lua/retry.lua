-- include: lock
-- include: promote
-- include: take
-- retry.lua: a failed attempt goes back to wait at once, behind its equals (in front if the job is LIFO).
--
-- KEYS[1]  queue base
-- ARGV     1 id   2 now ms   3 token   4 "1" = front of the list   5… fields of the job: name, value, …
-- Returns  0 | -1 no such job | -2 no lock | -3 not active | -6 another's lock
local q, id, now = KEYS[1], ARGV[1], tonumber(ARGV[2])

local due = due_jobs(q, now)
if due[1] then
  promote(q, due)
end
redis.call("ZCARD", q .. "prioritized")
local fault = leave_active(q, id, ARGV[3], 5)
if fault < 0 then
  return fault
end
put(q, id, tonumber(redis.call("HGET", q .. id, "priority")) or 0, ARGV[4] == "1")
redis.call("HINCRBY", q .. id, "atm", 1)
emit_trimmed(q, "waiting", "jobId", id, "prev", "active")
return 0
