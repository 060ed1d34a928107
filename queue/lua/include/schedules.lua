-- schedules.lua: repeat (zset: scheduler id -> ms of its pending iteration) protects that iteration, job id repeat:<id>:<ms>.

-- pending_iterations answers a table of the protected job ids.
local function pending_iterations(q)
  local ids = {}
  local all = redis.call("ZRANGE", q .. "repeat", 0, -1, "WITHSCORES")
  for i = 1, #all, 2 do
    ids["repeat:" .. all[i] .. ":" .. all[i + 1]] = true
  end
  return ids
end

-- is_pending_iteration: the job is the one that its scheduler has produced last.
local function is_pending_iteration(q, id)
  local scheduler = redis.call("HGET", q .. id, "rjk")
  local slot = scheduler and redis.call("ZSCORE", q .. "repeat", scheduler)
  return slot and id == "repeat:" .. scheduler .. ":" .. slot
end
