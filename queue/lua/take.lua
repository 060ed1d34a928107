-- include: take
-- take.lua: the next jobs become active under the caller's lock; due delayed jobs are promoted first.
--
-- KEYS[1]  queue base
-- ARGV     1 now ms, "" = the server's own time   2 token   3 lock ms   4 worker name or ""   5 limiter max or ""   6 limiter duration ms or ""
--          7 how many at most
-- Returns  see take() in include/take.lua
local now = ARGV[1]
if now == "" then
  local clock = redis.call("TIME")
  now = string.format("%.0f", clock[1] * 1000 + math.floor(clock[2] / 1000))
end
return take(KEYS[1], {
  now = now, token = ARGV[2], lock_ms = ARGV[3], worker = ARGV[4], max = ARGV[5], duration = ARGV[6],
}, tonumber(ARGV[7]))
