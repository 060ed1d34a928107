-- readevents.lua: events after a known one, and the oldest that is left, seen in the same moment.
--
-- KEYS[1]  queue base
-- ARGV     1 id of the last known event   2 how many at most
-- Returns  {id of the oldest or "", {{id, {field, value, …}}, …}}
local key = KEYS[1] .. "events"
local oldest = redis.call("XRANGE", key, "-", "+", "COUNT", 1)
return { oldest[1] and oldest[1][1] or "", redis.call("XRANGE", key, "(" .. ARGV[1], "+", "COUNT", ARGV[2]) }
