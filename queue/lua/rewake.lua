-- include: wake
-- rewake.lua: puts a wake-up back that a worker popped and could not follow.
--
-- KEYS[1]  queue base
-- ARGV     1 "1" = in any case, "" = only if something waits
-- Returns  0
local q = KEYS[1]
if ARGV[1] == "1" or redis.call("LLEN", q .. "wait") > 0 or redis.call("ZCARD", q .. "prioritized") > 0 then
  wake(q)
end
wake_at_due(q)
return 0
