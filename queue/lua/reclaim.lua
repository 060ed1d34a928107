-- reclaim.lua: finds the job that a take made active for the token although its answer never arrived, and renews its lock.
--
-- KEYS[1]  queue base
-- ARGV     1 token   2 lock ms
-- Returns  {} | {id, {field, value, …}}
local q = KEYS[1]

for _, id in ipairs(redis.call("LRANGE", q .. "active", 0, -1)) do
  if redis.call("GET", q .. id .. ":lock") == ARGV[1] then
    redis.call("PEXPIRE", q .. id .. ":lock", ARGV[2])
    redis.call("SREM", q .. "stalled", id)
    return { id, redis.call("HGETALL", q .. id) }
  end
end
return {}
