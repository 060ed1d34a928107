-- unlock.lua: gives up the lock of a job that was removed while it ran.
--
-- KEYS[1]  queue base
-- ARGV     1 id   2 token
-- Returns  1 if the lock was the token's, else 0
local lock = KEYS[1] .. ARGV[1] .. ":lock"
if redis.call("GET", lock) == ARGV[2] then
  return redis.call("DEL", lock)
end
return 0
