-- include: place
-- promote.lua: delayed jobs whose time has come.

-- promote moves delayed jobs that are due to where their priority says. An id without a hash is dropped: taking it would make a job without
-- name and data.
local function promote(q, ids)
  local jobs, urgent = {}, false
  for _, id in ipairs(ids) do
    local found = try("HMGET", q .. id, "priority", "name")
    if found and (found[1] or found[2] or call("EXISTS", q .. id) == 1) then
      local priority = tonumber(found[1] or nil) or 0
      jobs[#jobs + 1] = { id = id, priority = priority }
      urgent = urgent or priority > 0
    end
  end
  call("LLEN", waiting_list(q))
  if urgent then
    call("ZCARD", q .. "prioritized")
    call("GET", q .. "pc")
  end
  for _, job in ipairs(jobs) do
    emit(q, "waiting", "jobId", job.id, "prev", "delayed")
  end
  call("ZREM", q .. "delayed", unpack(ids))
  for _, job in ipairs(jobs) do
    if job.priority > 0 then
      rank(q, job.id, job.priority)
    else
      push(q, job.id, false)
    end
    call("HSET", q .. job.id, "delay", 0)
  end
  wake(q)
end
