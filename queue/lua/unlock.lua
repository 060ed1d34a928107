-- include: job
-- unlock.lua: gives up the lock of a job that was removed while it ran, and what else is left of it.
--
-- KEYS[1]  queue base
-- ARGV     1 id   2 token
-- Returns  1 if the lock was the token's, else 0
local q, id = KEYS[1], ARGV[1]
if redis.call("GET", q .. id .. ":lock") ~= ARGV[2] then
  return 0
end
redis.call("DEL", q .. id .. ":lock")
if redis.call("EXISTS", q .. id) == 0 then
  redis.call("LREM", q .. "active", 0, id)
  redis.call("SREM", q .. "stalled", id)
  drop_keys(q .. id)
end
return 1
