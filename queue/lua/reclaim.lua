-- include: meta
-- reclaim.lua: finds the jobs that a call made active for the token although its answer never arrived, and renews their locks.
--
-- KEYS[1]  queue base
-- ARGV     1 token   2 lock ms
-- Returns  an array in MessagePack: id, {field, value, …}, …
local q, jobs = KEYS[1], {}

for _, id in ipairs(redis.call("LRANGE", q .. "active", 0, -1)) do
  local fields = try("GET", q .. id .. ":lock") == ARGV[1] and try("HGETALL", q .. id)
  if fields then
    redis.call("PEXPIRE", q .. id .. ":lock", ARGV[2])
    try("SREM", q .. "stalled", id)
    jobs[#jobs + 1] = id
    jobs[#jobs + 1] = fields
  end
end
return cmsgpack.pack(jobs)
