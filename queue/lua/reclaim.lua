-- reclaim.lua: finds the jobs that a call made active for the token although its answer never arrived, and renews their locks.
--
-- KEYS[1]  queue base
-- ARGV     1 token   2 lock ms
-- Returns  an array in MessagePack: id, {field, value, …}, …
local q, jobs = KEYS[1], {}

for _, id in ipairs(redis.call("LRANGE", q .. "active", 0, -1)) do
  if redis.call("GET", q .. id .. ":lock") == ARGV[1] then
    redis.call("PEXPIRE", q .. id .. ":lock", ARGV[2])
    redis.call("SREM", q .. "stalled", id)
    jobs[#jobs + 1] = id
    jobs[#jobs + 1] = redis.call("HGETALL", q .. id)
  end
end
return cmsgpack.pack(jobs)
