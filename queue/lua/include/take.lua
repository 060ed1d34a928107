-- include: event
-- include: wake
-- take.lua: making the next jobs active. What most calls do without is made when it is needed: a function costs Redis each time that a
-- script defines it.

-- due_jobs answers the ids of delayed jobs that are due, at most 1000.
local function due_jobs(q, now)
  return call("ZRANGEBYSCORE", q .. "delayed", "0", (now + 1) * 4096 - 1, "LIMIT", "0", "1000")
end

-- as_added: the fields are those that every new job has, in the order in which they were written, and no others: it was never started.
-- What is read from a large hash comes in any order; then the answer is false, too.
local function as_added(fields)
  return fields[11] == "priority" and not fields[13] and fields[1] == "name" and fields[3] == "data" and fields[5] == "opts"
    and fields[7] == "timestamp" and fields[9] == "delay"
end

-- first_jobs makes up to most jobs of the list active at once, where nobody counts them meanwhile: calls begin with id, key and fields of each
-- and whether it is as it was added, and answers how many there were and how many ids were thrown away. There may be more in the list if
-- fewer than most are answered.
local function first_jobs(q, most, begin)
  local ids = call("LRANGE", q .. "wait", -most, "-1")
  -- Copies of a table have room for what will be in them.
  local active, keys, hashes, started, gone, read, n = { unpack(ids) }, { unpack(ids) }, { unpack(ids) }, {}, 0, 0, 0
  local read_hash = redis.pcall
  for i = #ids, 1, -1 do
    local id = ids[i]
    -- An id that is there twice is started twice, and the second start is to see the first one.
    if started[id] then
      break
    end
    read = read + 1
    if string.sub(id, 1, 2) ~= "0:" then
      local key = q .. id
      local fields = read_hash("HGETALL", key)
      if fields[1] then
        n = n + 1
        active[n], keys[n], hashes[n] = id, key, fields
        if not as_added(fields) then
          started[id] = true
        end
      else
        try("HGETALL", key)
        gone = gone + 1
      end
    end
  end
  if n > 0 then
    local events = stream_of(q)
    call("LLEN", q .. "active")
    for i = 1, n do
      call("XADD", events, "*", "event", "active", "jobId", active[i], "prev", "waiting")
    end
    call("LPUSH", q .. "active", unpack(active, 1, n))
  end
  if read > 0 then
    call("LTRIM", q .. "wait", "0", -read - 1)
  end
  for i = 1, n do
    begin(active[i], keys[i], hashes[i], not started[active[i]])
  end
  return n, gone
end

-- start notes the start of a job in its hash and in its fields, as they were read, and answers whether it only is to be failed.
local function start(job, fields, by)
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
    call("HSET", job, "processedOn", by.now, "pb", by.worker, "ats", ats)
  else
    call("HSET", job, "processedOn", by.now, "ats", ats)
  end
  return sentenced
end

-- take_singly makes up to most jobs active one after the other, each only if the limits of the queue allow it: calls begin as first_jobs does.
-- Answers why it ended, a number (both as take answers them) and how many ids were thrown away.
local function take_singly(q, most, max, begin)
  local gone = 0

  -- limited_for answers how many ms the rate limit forbids any take, 0 if it doesn't.
  local function limited_for()
    if not max or max > (tonumber(call("GET", q .. "limiter")) or 0) then
      return 0
    end
    local left = call("PTTL", q .. "limiter")
    if left == 0 then
      call("DEL", q .. "limiter")
    end
    return math.max(left, 0)
  end

  -- fields_of answers the fields of an id that was made active, or nil. Ids without a hash are thrown away, and so are markers of old majors.
  local function fields_of(id)
    if string.sub(id, 1, 2) ~= "0:" then
      local fields = try("HGETALL", q .. id)
      if fields and fields[1] then
        return fields
      end
      gone = gone + 1
    end
    call("LREM", q .. "active", "1", id)
    return nil
  end

  -- next_job makes the next job active and answers its id and fields and, if it was prioritised, its score; or nothing.
  local function next_job()
    local id = call("RPOPLPUSH", q .. "wait", q .. "active")
    while id do
      local fields = fields_of(id)
      if fields then
        return id, fields
      end
      id = call("RPOPLPUSH", q .. "wait", q .. "active")
    end
    local first = call("ZPOPMIN", q .. "prioritized")
    while first[1] do
      call("LPUSH", q .. "active", first[1])
      local fields = fields_of(first[1])
      if fields then
        return first[1], fields, first[2]
      end
      first = call("ZPOPMIN", q .. "prioritized")
    end
  end

  -- announce tells of an active job. Where that can't be done, it goes back to where it was.
  local function announce(id, score)
    local events = stream_of(q)
    if try("XADD", events, "*", "event", "active", "jobId", id, "prev", "waiting") then
      return
    end
    call("LREM", q .. "active", "1", id)
    if score then
      call("ZADD", q .. "prioritized", score, id)
    else
      call("RPUSH", q .. "wait", id)
    end
    call("XADD", events, "*", "event", "active", "jobId", id, "prev", "waiting")
  end

  for _ = 1, most do
    local wait = limited_for()
    if wait > 0 then
      return "limited", wait, gone
    end
    if held_back(q) then
      return "held", 0, gone
    end
    local id, fields, score = next_job()
    if not id then
      call("DEL", q .. "pc")
      local first = call("ZRANGE", q .. "delayed", "0", "0", "WITHSCORES")
      return "none", first[2] and math.floor(tonumber(first[2]) / 4096) or 0, gone
    end
    announce(id, score)
    begin(id, q .. id, fields, as_added(fields))
  end
  return "full", 0, gone
end

-- count_against_limit notes a start in the running window.
local function count_against_limit(q, duration)
  if call("INCR", q .. "limiter") == 1 and duration then
    call("PEXPIRE", q .. "limiter", math.floor(math.abs(duration)))
  end
end

-- take makes up to most of the next jobs active for the token. By: now, token, lock_ms, worker, max, duration (texts; the last three may
-- be ""). Answers {why it ended, number, gone, jobs, now}: how many ids were thrown away because they had no hash; the jobs, "" for none, as
-- an array in MessagePack, which costs server and client less than so many parts of an answer, one after the other, each as
--   id, {field, value, …}     with what its start has written
--   id, data                  if it was as it was added: started now, for the first time, by the worker. What such jobs have in common is
--                             told when it changes, before the id: true, name, opts, delay, priority and false, timestamp
-- and as the end one of
--   "full"     as many as were asked for
--   "limited"  the rate limit forbids more; number: for how many ms
--   "held"     paused, or the global concurrency is used up
--   "none"     there is none; number: ms at which the first delayed job is due, or 0
local function take(q, by, most)
  local meta, jobs, at = meta_of(q), {}, 0
  local max = tonumber(meta.max or nil) or tonumber(by.max)
  local now, token, worker, lock_ms = by.now, by.token, by.worker, by.lock_ms
  local name, opts, timestamp, delay, priority
  local again = {} -- how often jobs have been started by this call, if more than once

  -- start_new is start() for a job as it was added. false: it is not any more.
  local function start_new(job)
    if worker ~= "" then
      return call("HSET", job, "processedOn", now, "pb", worker, "ats", "1") == 3
    end
    return call("HSET", job, "processedOn", now, "ats", "1") == 2
  end

  -- tell_new writes down a job as it was added.
  local function tell_new(id, fields)
    if fields[2] ~= name or fields[6] ~= opts or fields[10] ~= delay or fields[12] ~= priority then
      name, opts, delay, priority = fields[2], fields[6], fields[10], fields[12]
      jobs[at + 1], jobs[at + 2], jobs[at + 3], jobs[at + 4], jobs[at + 5] = true, name, opts, delay, priority
      at = at + 5
    end
    if fields[8] ~= timestamp then
      timestamp = fields[8]
      jobs[at + 1], jobs[at + 2] = false, timestamp
      at = at + 2
    end
    jobs[at + 1], jobs[at + 2] = id, fields[4]
    at = at + 2
  end

  local function begin(id, job, fields, new)
    local sentenced = false
    if new and not start_new(job) then
      again[id] = (again[id] or 0) + 1
      call("HSET", job, "ats", again[id]) -- start_new has written 1 over it
      fields, new = call("HGETALL", job), false
    end
    if new then
      tell_new(id, fields)
    else
      sentenced = start(job, fields, by)
      jobs[at + 1], jobs[at + 2] = id, fields
      at = at + 2
    end
    -- A job that only is to be failed counts for no start.
    if max and not sentenced then
      count_against_limit(q, tonumber(by.duration) or tonumber(meta.duration or nil))
    end
    if token ~= "0" then
      call("SET", job .. ":lock", token, "PX", lock_ms)
    end
  end

  local due = due_jobs(q, tonumber(now))
  if due[1] then
    -- include: promote
    promote(q, due)
  end
  local count, thrown, why, number, gone = 0, 0, "full", 0, 0
  if most > 1 and not (max or meta.paused or meta.concurrency) then
    count, thrown = first_jobs(q, most, begin)
  end
  if count < most then
    local ok, ended, left, without = pcall(take_singly, q, most - count, max, begin)
    if ok then
      why, number, gone = ended, left, without
    elseif at == 0 then
      error(ended, 0)
    else
      why = "none" -- the next take meets the fault; this one has jobs to tell
    end
  end
  if at > 0 then
    set_marker(q)
  end
  return { why, number, thrown + gone, at > 0 and cmsgpack.pack(jobs) or "", now }
end
