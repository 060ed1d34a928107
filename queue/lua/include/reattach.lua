-- include: family
-- reattach.lua: a finished job that runs again.

-- reattach makes the job a pending child of its parent again, if the parent had booked its end. A parent that has gone on is not moved.
local function reattach(job, state)
  local x = parent_of(job)
  if not x then
    return
  end
  local was
  if state == "failed" then
    was = redis.call("ZREM", x.key .. ":unsuccessful", job) + redis.call("HDEL", x.key .. ":failed", job)
  else
    was = redis.call("HDEL", x.key .. ":processed", job)
  end
  if was > 0 then
    redis.call("SADD", x.key .. ":dependencies", job)
  end
end

-- forget_end takes the marks of its end off a job.
local function forget_end(job, state)
  redis.call("HDEL", job, "finishedOn", "processedOn", state == "failed" and "failedReason" or "returnvalue")
end
