-- include: place
-- promote.lua: delayed jobs whose time has come.

-- promote moves delayed jobs that are due to where their priority says.
local function promote(q, ids)
  redis.call("ZREM", q .. "delayed", unpack(ids))
  for _, id in ipairs(ids) do
    local priority = redis.call("HGET", q .. id, "priority")
    -- An id without a hash is dropped: taking it would make a job without name and data.
    if priority or redis.call("EXISTS", q .. id) == 1 then
      priority = tonumber(priority) or 0
      if priority > 0 then
        rank(q, id, priority)
      else
        push(q, id, false)
      end
      emit(q, "waiting", "jobId", id, "prev", "delayed")
      redis.call("HSET", q .. id, "delay", 0)
    end
  end
  wake(q)
end
