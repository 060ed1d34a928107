-- include: take
-- take.lua: the next jobs become active under the caller's lock; due delayed jobs are promoted first.
--
-- KEYS[1]  queue base
-- ARGV     1 now ms   2 token   3 lock ms   4 worker name or ""   5 limiter max or ""   6 limiter duration ms or ""
--          7 how many at most
-- Returns  see take() in include/take.lua
return take(KEYS[1], {
  now = ARGV[1], token = ARGV[2], lock_ms = ARGV[3], worker = ARGV[4], max = ARGV[5], duration = ARGV[6],
}, tonumber(ARGV[7]))
