-- include: event
-- progress.lua: stores and announces a job's progress.
--
-- KEYS[1]  queue base
-- ARGV     1 id   2 progress (JSON)   3 token, or "" = whoever runs it
-- Returns  0 | -1 no such job | -2 no lock | -6 another's lock
local q, id = KEYS[1], ARGV[1]
if redis.call("EXISTS", q .. id) == 0 then
  return -1
end
if ARGV[3] ~= "" then
  local owner = redis.call("GET", q .. id .. ":lock")
  if owner ~= ARGV[3] then
    return owner and -6 or -2
  end
end
redis.call("HSET", q .. id, "progress", ARGV[2])
emit_trimmed(q, "progress", "jobId", id, "data", ARGV[2])
return 0
