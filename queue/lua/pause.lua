-- include: event
-- pause.lua: nobody takes jobs any more; they stay where they are.
--
-- KEYS[1]  queue base
-- Returns  0
local q = KEYS[1]
redis.call("HSET", q .. "meta", "paused", 1)
redis.call("DEL", q .. "marker")
emit(q, "paused")
return 0
