-- include: lock
-- wait_children.lua: an active job waits for its pending children; no attempt is spent.
--
-- KEYS[1]  queue base
-- ARGV     1 id   2 token   3 now ms   4 key of the one child that matters, or "" = all of them
-- Returns  0 | 1 no child is pending, nothing was changed | -1 no such job | -2 no lock | -3 not active | -6 another's lock |
--          -9 failed children
local q, id = KEYS[1], ARGV[1]
local job = q .. id

if redis.call("EXISTS", job) == 0 then
  return -1
end
-- The lock comes first, so that a caller whose answer was lost learns from its second call that the first one did it.
local owner = redis.call("GET", job .. ":lock")
if ARGV[2] ~= "0" and owner ~= ARGV[2] then
  return owner and -6 or -2
end
if redis.call("ZCARD", job .. ":unsuccessful") ~= 0 then
  return -9
end
local pending
if ARGV[4] ~= "" then
  pending = redis.call("SISMEMBER", job .. ":dependencies", ARGV[4])
else
  pending = redis.call("SCARD", job .. ":dependencies")
end
if pending == 0 then
  return 1
end
redis.call("ZCARD", q .. "waiting-children")
local fault = leave_active(q, id, ARGV[2], 5)
if fault < 0 then
  return fault
end
redis.call("ZADD", q .. "waiting-children", ARGV[3], id)
emit(q, "waiting-children", "jobId", id, "prev", "active")
return 0
