-- include: event
-- include: wake
-- place.lua: putting a job where it waits. The next job to run is at the right end of the list.

-- waiting_list names the list that takes new jobs. Major 5 moves the waiting jobs of a paused queue to "paused" and renames it back on
-- resume, overwriting "wait": while such a list exists our jobs join it, so that neither major loses them.
local function waiting_list(q)
  if meta_of(q).paused and redis.call("EXISTS", q .. "paused") == 1 then
    return q .. "paused"
  end
  return q .. "wait"
end

-- push puts a job in the list without waking anybody; front means: served next.
local function push(q, id, front)
  redis.call(front and "RPUSH" or "LPUSH", waiting_list(q), id)
end

-- rank puts a job behind its equals in the prioritised set without waking anybody.
local function rank(q, id, priority)
  local turn = redis.call("INCR", q .. "pc") % 4294967296
  redis.call("ZADD", q .. "prioritized", priority * 4294967296 + turn, id)
end

-- put makes a job takeable and wakes a worker.
local function put(q, id, priority, front)
  if priority > 0 then
    rank(q, id, priority)
  else
    push(q, id, front)
  end
  wake(q)
end

-- schedule puts a job in the delayed set, behind those that are due in the same millisecond (4096 of them keep their order).
local function schedule(q, id, due)
  local low = due * 4096
  local high = low + 4095
  local last = redis.call("ZREVRANGEBYSCORE", q .. "delayed", high, low, "WITHSCORES", "LIMIT", 0, 1)
  local score = low
  if last[2] then
    score = math.min(tonumber(last[2]) + 1, high)
  end
  redis.call("ZADD", q .. "delayed", score, id)
end
