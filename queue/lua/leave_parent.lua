-- include: family
-- leave_parent.lua: a job stops being a child; its parent does not wait for it any more.
--
-- KEYS[1]  queue base
-- ARGV     1 id
-- Returns  0 | 1 it has no parent | -1 no such job | -5 its parent does not exist
local q, job = KEYS[1], KEYS[1] .. ARGV[1]

if redis.call("EXISTS", job) == 0 then
  return -1
end
local x = parent_of(job)
if not x then
  return 1
end
if redis.call("EXISTS", x.key) == 0 then
  return -5
end
child_gone(q, job, false)
redis.call("HDEL", job, "parentKey", "parent")
return 0
