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

-- next_job makes the next job active. Answers its id and fields, and how many ids without a hash were thrown away on the way. Markers of
-- old majors in the lists go, too.
local function next_job(q)
  local gone = 0
  local function fields_of(id)
    if string.sub(id, 1, 2) ~= "0:" then
      local fields = redis.call("HGETALL", q .. id)
      if fields[1] then
        return fields
      end
      gone = gone + 1
    end
    redis.call("LREM", q .. "active", 1, id)
    return nil
  end

  local id = redis.call("RPOPLPUSH", q .. "wait", q .. "active")
  while id do
    local fields = fields_of(id)
    if fields then
      return id, fields, gone
    end
    id = redis.call("RPOPLPUSH", q .. "wait", q .. "active")
  end

  local first = redis.call("ZPOPMIN", q .. "prioritized")
  while first[1] do
    redis.call("LPUSH", q .. "active", first[1])
    local fields = fields_of(first[1])
    if fields then
      return first[1], fields, gone
    end
    first = redis.call("ZPOPMIN", q .. "prioritized")
  end
  return nil, nil, gone
end

-- first_jobs makes up to most jobs of the list active at once, where nobody counts them meanwhile: {id, fields, …} and how many ids were
-- thrown away. There may be more in the list if fewer than most are answered.
local function first_jobs(q, most)
  local ids = redis.call("LRANGE", q .. "wait", -most, "-1")
  local jobs, active, seen, gone, read = {}, {}, {}, 0, 0
  for i = #ids, 1, -1 do
    local id = ids[i]
    if seen[id] then
      break
    end
    seen[id] = true
    read = read + 1
    local fields = string.sub(id, 1, 2) ~= "0:" and redis.call("HGETALL", q .. id)
    if fields and fields[1] then
      jobs[#jobs + 1] = id
      jobs[#jobs + 1] = fields
      active[#active + 1] = id
    elseif fields then
      gone = gone + 1
    end
  end
  if read > 0 then
    redis.call("LTRIM", q .. "wait", "0", -read - 1)
  end
  if active[1] then
    redis.call("LPUSH", q .. "active", unpack(active))
  end
  return jobs, gone
end

-- count_against_limit notes a start in the running window.
local function count_against_limit(q, duration)
  if redis.call("INCR", q .. "limiter") == 1 and duration then
    redis.call("PEXPIRE", q .. "limiter", math.floor(math.abs(duration)))
  end
end

-- as_added: the fields are those that every new job has, in the order in which they were written, and no others: it was never started.
-- What is read from a large hash comes in any order; then the answer is false, too.
local function as_added(fields)
  return fields[11] == "priority" and not fields[13] and fields[1] == "name" and fields[3] == "data" and fields[5] == "opts"
    and fields[7] == "timestamp" and fields[9] == "delay"
end

-- start_new is start() for a job as it was added.
local function start_new(job, fields, by)
  local now = by.now
  fields[13], fields[14], fields[15], fields[16] = "processedOn", now, "ats", "1"
  if by.worker ~= "" then
    fields[17], fields[18] = "pb", by.worker
    redis.call("HSET", job, "processedOn", now, "pb", by.worker, "ats", "1")
  else
    redis.call("HSET", job, "processedOn", now, "ats", "1")
  end
  return false
end

-- start notes the start of a job in its hash and in its fields, as they were read, and answers whether it only is to be failed.
local function start(job, fields, by)
  if as_added(fields) then
    return start_new(job, fields, by)
  end
  local at, started, by_at, sentenced, ats = nil, nil, nil, false, 1
  for i = 1, #fields, 2 do
    local field = fields[i]
    if field == "ats" then
      started = i + 1
      ats = (tonumber(fields[started]) or 0) + 1
    elseif field == "processedOn" then
      at = i + 1
    elseif field == "pb" then
      by_at = i + 1
    elseif field == "defa" then
      sentenced = true
    end
  end

  local function note(place, field, value)
    if not place then
      place = #fields + 2
      fields[place - 1] = field
    end
    fields[place] = value
  end
  note(at, "processedOn", by.now)
  ats = string.format("%.0f", ats)
  note(started, "ats", ats)
  if by.worker ~= "" then
    note(by_at, "pb", by.worker)
    redis.call("HSET", job, "processedOn", by.now, "pb", by.worker, "ats", ats)
  else
    redis.call("HSET", job, "processedOn", by.now, "ats", ats)
  end
  return sentenced
end

-- take makes up to most of the next jobs active for the token. By: now, token, lock_ms, worker, max, duration (texts; the last three may
-- be ""). Answers {why it ended, number, gone, {id, {field, value, …}, …}}: the jobs, how many ids were thrown away because they had no
-- hash, and as the end one of
--   "full"     as many as were asked for
--   "limited"  the rate limit forbids more; number: for how many ms
--   "held"     paused, or the global concurrency is used up
--   "none"     there is none; number: ms at which the first delayed job is due, or 0
local function take(q, by, most)
  local meta, jobs, gone = meta_of(q), {}, 0
  local max = tonumber(meta.max or nil) or tonumber(by.max)

  local function answer(why, number)
    if jobs[1] then
      set_marker(q)
    end
    return { why, number, gone, jobs }
  end

  local function begin(id, fields)
    local job = q .. id
    -- A job that only is to be failed counts for no start.
    if not start(job, fields, by) and max then
      count_against_limit(q, tonumber(by.duration) or tonumber(meta.duration or nil))
    end
    if by.token ~= "0" then
      redis.call("SET", job .. ":lock", by.token, "PX", by.lock_ms)
    end
    emit(q, "active", "jobId", id, "prev", "waiting")
    jobs[#jobs + 1] = id
    jobs[#jobs + 1] = fields
  end

  promote(q, tonumber(by.now))
  if most > 1 and not (max or meta.paused or meta.concurrency) then
    local first, thrown = first_jobs(q, most)
    gone = thrown
    for i = 1, #first, 2 do
      begin(first[i], first[i + 1])
    end
  end
  for _ = #jobs / 2 + 1, most do
    local wait = limited_for(q, max)
    if wait > 0 then
      return answer("limited", wait)
    end
    if held_back(q) then
      return answer("held", 0)
    end

    local id, fields, thrown = next_job(q)
    gone = gone + thrown
    if not id then
      redis.call("DEL", q .. "pc")
      local first = redis.call("ZRANGE", q .. "delayed", 0, 0, "WITHSCORES")
      return answer("none", first[2] and math.floor(tonumber(first[2]) / 4096) or 0)
    end

    begin(id, fields)
  end
  return answer("full", 0)
end
