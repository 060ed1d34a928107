-- include: place
-- reprioritize.lua: a job gets another priority, and its new place at once if it waits. The lists of both majors are looked through.
--
-- KEYS[1]  queue base
-- ARGV     1 id   2 priority   3 "1" = in front of its equals
-- Returns  0 | -1 no such job
local q, id, priority, front = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3] == "1"

if redis.call("EXISTS", q .. id) == 0 then
  return -1
end
local waits = redis.call("ZREM", q .. "prioritized", id) == 1
  or redis.call("LREM", q .. "wait", -1, id) == 1
  or redis.call("LREM", q .. "paused", -1, id) == 1
if waits and priority > 0 and front then
  redis.call("ZADD", q .. "prioritized", priority * 4294967296, id)
elseif waits then
  put(q, id, priority, front)
end
redis.call("HSET", q .. id, "priority", priority)
return 0
