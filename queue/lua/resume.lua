-- include: event
-- include: wake
-- resume.lua: jobs may be taken again. What major 5 has moved to "paused" goes back to the end of "wait" that is served first.
--
-- KEYS[1]  queue base
-- ARGV     1 "1" = the first call of a resume, which announces it
-- Returns  how many ids are left in "paused" (call again)
local q = KEYS[1]
redis.call("HDEL", q .. "meta", "paused")

local left = 0
if redis.call("EXISTS", q .. "paused") == 1 then
  if redis.call("EXISTS", q .. "wait") == 0 then
    redis.call("RENAME", q .. "paused", q .. "wait")
  else
    local ids = redis.call("LRANGE", q .. "paused", 0, 6999)
    redis.call("RPUSH", q .. "wait", unpack(ids))
    redis.call("LTRIM", q .. "paused", #ids, -1)
    left = redis.call("LLEN", q .. "paused")
  end
end

if redis.call("LLEN", q .. "wait") + redis.call("ZCARD", q .. "prioritized") > 0 then
  redis.call("ZADD", q .. "marker", 0, "0")
else
  wake_at_due(q)
end
if ARGV[1] == "1" then
  emit(q, "resumed")
end
return left
