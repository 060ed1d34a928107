-- include: meta
-- extend.lua: renews the locks of running jobs. Whatever a key holds, the locks of the others are renewed.
--
-- KEYS[1]  queue base
-- ARGV     1 lock ms   2… id, token, id, token, …
-- Returns  the ids whose lock is missing or another's
local q, lost = KEYS[1], {}

for i = 2, #ARGV, 2 do
  local lock = q .. ARGV[i] .. ":lock"
  if try("GET", lock) == ARGV[i + 1] then
    -- PEXPIRE works on a server that is out of memory, where SET is refused.
    redis.call("PEXPIRE", lock, ARGV[1])
    try("SREM", q .. "stalled", ARGV[i])
  else
    lost[#lost + 1] = ARGV[i]
  end
end
return lost
