-- include: reattach
-- retry_finished.lua: a finished job runs again.
--
-- KEYS[1]  queue base
-- ARGV     1 id   2 "failed" or "completed"   3 "1" = front of the list
--          4 "1" = attempts made start at 0   5 "1" = attempts started start at 0
-- Returns  1 | -1 no such job | -3 not in that state
local q, id, state = KEYS[1], ARGV[1], ARGV[2]
local job = q .. id

if redis.call("EXISTS", job) == 0 then
  return -1
end
local priority = tonumber(redis.call("HGET", job, "priority")) or 0
redis.call("LLEN", waiting_list(q))
redis.call("ZSCORE", q .. "prioritized", id)
trim_events(q)
if redis.call("ZREM", q .. state, id) == 0 then
  return -3
end
forget_end(job, state)
if ARGV[4] == "1" then
  redis.call("HDEL", job, "atm")
end
if ARGV[5] == "1" then
  redis.call("HDEL", job, "ats")
end
put(q, id, priority, ARGV[3] == "1")
reattach(job, state)
emit_trimmed(q, "waiting", "jobId", id, "prev", state)
return 1
