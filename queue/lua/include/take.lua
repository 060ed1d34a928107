-- include: job
-- take.lua: making the next job active.

-- promote moves delayed jobs that are due, at most 1000 a call, to where their priority says.
local function promote(q, now)
  local ids = redis.call("ZRANGEBYSCORE", q .. "delayed", 0, (now + 1) * 4096 - 1, "LIMIT", 0, 1000)
  if #ids == 0 then
    return
  end
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

-- limited_for answers how many ms the rate limit forbids any take, 0 if it doesn't.
local function limited_for(q, max)
  if not max or max > (tonumber(redis.call("GET", q .. "limiter")) or 0) then
    return 0
  end
  local left = redis.call("PTTL", q .. "limiter")
  if left == 0 then
    redis.call("DEL", q .. "limiter")
  end
  return math.max(left, 0)
end

-- next_id makes the next job active. Markers of old majors in the lists and ids without a hash are thrown away; the second answer is
-- how many of the latter.
local function next_id(q)
  local gone = 0
  local function sound(id)
    if string.sub(id, 1, 2) ~= "0:" then
      if redis.call("EXISTS", q .. id) == 1 then
        return true
      end
      gone = gone + 1
    end
    redis.call("LREM", q .. "active", 1, id)
    return false
  end

  local id = redis.call("RPOPLPUSH", q .. "wait", q .. "active")
  while id and not sound(id) do
    id = redis.call("RPOPLPUSH", q .. "wait", q .. "active")
  end
  if id then
    return id, gone
  end

  local first = redis.call("ZPOPMIN", q .. "prioritized")
  while first[1] do
    redis.call("LPUSH", q .. "active", first[1])
    if sound(first[1]) then
      return first[1], gone
    end
    first = redis.call("ZPOPMIN", q .. "prioritized")
  end
  return nil, gone
end

-- count_against_limit notes a start in the running window.
local function count_against_limit(q, duration)
  if redis.call("INCR", q .. "limiter") == 1 and duration then
    redis.call("PEXPIRE", q .. "limiter", math.floor(math.abs(duration)))
  end
end

-- take makes the next job active for the token. By: now, token, lock_ms, worker, max, duration (the last three may be "").
-- Answers one of
--   {"job", id, {field, value, …}, gone}     taken; gone = ids thrown away because they had no hash
--   {"limited", ms}                          the rate limit forbids it that long
--   {"held"}                                 paused, or the global concurrency is used up
--   {"none", due_ms or 0, gone}              nothing there; the first delayed job is due then
local function take(q, by)
  local meta = redis.call("HMGET", q .. "meta", "max", "duration")
  local max = tonumber(meta[1]) or tonumber(by.max)
  promote(q, by.now)
  local wait = limited_for(q, max)
  if wait > 0 then
    return { "limited", wait }
  end
  if held_back(q) then
    return { "held" }
  end

  local id, gone = next_id(q)
  if not id then
    redis.call("DEL", q .. "pc")
    local first = redis.call("ZRANGE", q .. "delayed", 0, 0, "WITHSCORES")
    return { "none", first[2] and math.floor(tonumber(first[2]) / 4096) or 0, gone }
  end

  local job = q .. id
  -- A job that only is to be failed starts nothing.
  if max and redis.call("HEXISTS", job, "defa") == 0 then
    count_against_limit(q, tonumber(by.duration) or tonumber(meta[2]))
  end
  if by.token ~= "0" then
    redis.call("SET", job .. ":lock", by.token, "PX", by.lock_ms)
  end
  emit(q, "active", "jobId", id, "prev", "waiting")
  if by.worker ~= "" then
    redis.call("HSET", job, "processedOn", by.now, "pb", by.worker)
  else
    redis.call("HSET", job, "processedOn", by.now)
  end
  redis.call("HINCRBY", job, "ats", 1)
  redis.call("ZADD", q .. "marker", 0, "0")
  return { "job", id, redis.call("HGETALL", job), gone }
end
