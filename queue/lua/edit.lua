-- edit.lua: overwrites a field of a job that exists.
--
-- KEYS[1]  queue base
-- ARGV     1 id   2 field   3 value
-- Returns  0 | -1 no such job
local job = KEYS[1] .. ARGV[1]
if redis.call("EXISTS", job) == 0 then
  return -1
end
redis.call("HSET", job, ARGV[2], ARGV[3])
return 0
