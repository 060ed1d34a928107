-- include: wake
-- rewake.lua: puts a wake-up back that a worker popped and could not follow, if there still is something to take.
--
-- KEYS[1]  queue base
-- Returns  0
local q = KEYS[1]
if redis.call("LLEN", q .. "wait") > 0 or redis.call("ZCARD", q .. "prioritized") > 0 then
  wake(q)
end
wake_at_due(q)
return 0
