-- include: reattach
-- requeue.lua: many finished or delayed jobs go to the list of those that wait, oldest first. Like BullMQ it looks at no priority, and
-- leaves the delay of delayed ones written down.
--
-- KEYS[1]  queue base
-- ARGV     1 failed | completed | delayed   2 highest score, or "+inf"   3 how many at most
-- Returns  how many went; less than asked for = there were no more
local q, state = KEYS[1], ARGV[1]

local ids = redis.call("ZRANGEBYSCORE", q .. state, "-inf", ARGV[2], "LIMIT", 0, ARGV[3])
if #ids == 0 then
  return 0
end
redis.call("LLEN", waiting_list(q))
trim_events(q)
for _, id in ipairs(ids) do
  redis.call("ZREM", q .. state, id)
  -- An id without a hash is dropped: taking it would make a job without name and data.
  if (try("HLEN", q .. id) or 0) > 0 then
    if state ~= "delayed" then
      forget_end(q .. id, state)
      reattach(q .. id, state)
    end
    emit_trimmed(q, "waiting", "jobId", id, "prev", state)
    push(q, id, false)
  end
end
wake(q)
return #ids
