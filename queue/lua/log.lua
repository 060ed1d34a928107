-- log.lua: adds a row to a job's log.
--
-- KEYS[1]  queue base
-- ARGV     1 id   2 row   3 how many rows are kept, 0 = all   4 token, or "" = whoever runs it
-- Returns  how many rows there are | -1 no such job | -2 no lock | -6 another's lock
local job = KEYS[1] .. ARGV[1]
if redis.call("EXISTS", job) == 0 then
  return -1
end
if ARGV[4] ~= "" then
  local owner = redis.call("GET", job .. ":lock")
  if owner ~= ARGV[4] then
    return owner and -6 or -2
  end
end
local rows, keep = redis.call("RPUSH", job .. ":logs", ARGV[2]), tonumber(ARGV[3])
if keep > 0 and rows > keep then
  redis.call("LTRIM", job .. ":logs", -keep, -1)
  return keep
end
return rows
