-- include: keep
-- include: metrics
-- finish_each.lua: jobs that end in any way, each by itself.

-- jobs_of lists the jobs of the runs (see finish_alike.lua) and those whose arguments begin at ARGV[at]: id, key, lock (its key), token, now,
-- value, as_added (it is of a run) and, unless it is completed and kept for ever, rule.
local function jobs_of(q, runs, ids, at)
  local argv, jobs, token, now = ARGV, {}, nil, nil

  local function add(id, value, as_added)
    local key = q .. id
    jobs[#jobs + 1] = { id = id, key = key, lock = key .. ":lock", token = token, now = now, value = value, as_added = as_added }
  end

  -- read_rule reads how a job ends; its fields begin at ARGV[first].
  local function read_rule(text, first)
    local state, count, age, limit, attempts, fields = string.match(text, "^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$")
    return {
      target = state == "c" and "completed" or "failed", count = tonumber(count), age = tonumber(age), limit = tonumber(limit),
      attempts = tonumber(attempts), first = first, last = first - 1 + tonumber(fields),
    }
  end

  for _, run in ipairs(runs) do
    token, now = run.token, run.now
    for i = run.first, run.last do
      add(ids[i], run.value, true)
    end
  end
  while argv[at] do
    if argv[at] == "@" then
      token, now = argv[at + 1], argv[at + 2]
      at = at + 3
    else
      add(argv[at + 1], argv[at + 2], false)
      local rule = argv[at] ~= "-" and read_rule(argv[at], at + 3)
      jobs[#jobs].rule = rule
      at = rule and rule.last + 1 or at + 3
    end
  end
  return jobs
end

-- finish_each ends the jobs, after the first ones of the call that have ended already. Answers how many of all have ended, and an answer
-- for each (see finish.lua), none if all have. Started: how many fields a job has that was taken as it was added.
local function finish_each(q, before, jobs, started, points)
  local n, events, call = #jobs, stream_of(q), call

  -- What many jobs have in common is written once, in the order of the jobs: kept are those that are completed without a rule.
  local locks, ids, kept, unlocked, kept_last = {}, {}, {}, 0, 0

  local function flush_kept()
    if kept_last > 0 then
      call("ZADD", q .. "completed", unpack(kept))
      kept, kept_last = {}, 0
    end
  end

  -- What the checks of a batch look at is read for all of it at once. A job that fails may mark its parent, which may be in the batch, too:
  -- then each job's children are looked at in their turn.
  local owners, childless = {}, false

  local function look_ahead()
    local lock_keys, child_keys, failed = {}, {}, false
    for i, job in ipairs(jobs) do
      lock_keys[i] = job.lock
      child_keys[2 * i - 1] = job.key .. ":dependencies"
      child_keys[2 * i] = job.key .. ":unsuccessful"
      failed = failed or job.rule and job.rule.target == "failed"
    end
    owners = call("MGET", unpack(lock_keys))
    childless = not failed and call("EXISTS", unpack(child_keys)) == 0
  end

  -- check fails where a key of the queue that is going to be written to holds something else: then nothing is written.
  local function check()
    local targets = {}
    for _, job in ipairs(jobs) do
      targets[job.rule and job.rule.target or "completed"] = true
    end
    for target in pairs(targets) do
      call("ZCARD", q .. target)
      if points > 0 then
        check_metrics(q, target)
      end
    end
    call("LLEN", q .. "active")
    call("SCARD", q .. "stalled")
    trim_events(q)
  end

  -- Taking many ids off a short list one by one costs more than writing it anew. It is put off to the end, unless somebody counts meanwhile.
  local running, order, gone = nil, nil, {}

  local function read_active()
    if n < 8 or meta_of(q).concurrency or call("LLEN", q .. "active") > 4 * n + 32 then
      return
    end
    running, order = {}, call("LRANGE", q .. "active", "0", "-1")
    for _, id in ipairs(order) do
      running[id] = (running[id] or 0) + 1
    end
  end

  -- leave_list takes one occurrence of the id off the active list, the rightmost one; false: there was none.
  local function leave_list(id)
    if not running then
      return call("LREM", q .. "active", "-1", id) == 1
    end
    if (running[id] or 0) == 0 then
      return false
    end
    running[id] = running[id] - 1
    gone[id] = (gone[id] or 0) + 1
    return true
  end

  local function flush_active()
    if not (running and next(gone)) then
      return
    end
    local stay = {}
    for i = #order, 1, -1 do
      local id = order[i]
      if (gone[id] or 0) > 0 then
        gone[id] = gone[id] - 1
      else
        stay[#stay + 1] = id
      end
    end
    call("DEL", q .. "active")
    if stay[1] then
      call("LPUSH", q .. "active", unpack(stay))
    end
  end

  local function flush()
    if locks[1] then
      call("DEL", unpack(locks))
      call("SREM", q .. "stalled", unpack(ids))
    end
    flush_kept()
    flush_active()
  end

  -- children answers what a job's children have against its completion.
  local function children(key)
    if call("EXISTS", key .. ":dependencies", key .. ":unsuccessful") == 0 then
      return 0
    end
    if call("SCARD", key .. ":dependencies") ~= 0 then
      return -4
    end
    return call("ZCARD", key .. ":unsuccessful") ~= 0 and -9 or 0
  end

  -- leave takes the job off the active list: 0, -2, -3 or -6. It has left until its end is written: a fault before that brings it back.
  local left = nil

  local function leave(job, owner)
    if job.token ~= "0" then
      if owner ~= job.token then
        return owner and -6 or -2
      end
      unlocked = unlocked + 1
      locks[unlocked], ids[unlocked] = job.lock, job.id
    end
    local rule = job.rule
    if rule and rule.last > rule.first then
      call("HSET", job.key, unpack(ARGV, rule.first, rule.last))
    end
    if not leave_list(job.id) then
      return -3
    end
    left = job
    return 0
  end

  -- come_back undoes leave.
  local function come_back(job)
    if job.token ~= "0" then
      locks[unlocked], ids[unlocked] = nil, nil
      unlocked = unlocked - 1
    end
    if running then
      running[job.id], gone[job.id] = running[job.id] + 1, gone[job.id] - 1
    else
      call("RPUSH", q .. "active", job.id)
    end
  end

  -- store leaves the end in the hash of a job that ends by a rule, and its id among the finished ones, or nothing at all.
  local function store(job, made)
    local rule, key = job.rule, job.key
    if rule.count == 0 then
      child_gone(q, key, false)
      left = nil
      drop_keys(key)
      return
    end
    left = nil
    call("HSET", key, "atm", made, rule.target == "completed" and "returnvalue" or "failedReason", job.value, "finishedOn", job.now)
    flush_kept()
    call("ZADD", q .. rule.target, job.now, job.id)
    if rule.target == "failed" then
      call("HDEL", key, "defa")
    end
    keep_newest(q, q .. rule.target, tonumber(job.now), rule.age, rule.count, rule.limit)
  end

  local function announce_failed(job, made)
    emit(q, "failed", "jobId", job.id, "failedReason", job.value, "prev", "active")
    if tonumber(made) >= (job.rule.attempts or 0) then
      emit(q, "retries-exhausted", "jobId", job.id, "attemptsMade", made)
    end
  end

  -- facts answers attempts made, deduplication id and parent's key, or nothing if there is no such job. A job that was taken as it was
  -- added has none of them if there are no fields but those; see all_alike.
  local function facts(job, owner)
    if job.as_added and owner == job.token and try("HLEN", job.key) == started then
      return "1", false, false
    end
    local hash = try("HMGET", job.key, "ats", "atm", "deid", "parentKey")
    if not hash or not hash[1] and call("EXISTS", job.key) == 0 then
      return nil
    end
    return string.format("%.0f", (tonumber(hash[2] or nil) or 0) + 1), hash[3], hash[4]
  end

  local function finish(job, owner)
    local id, key, rule, value, now = job.id, job.key, job.rule, job.value, job.now
    local completed = not rule or rule.target == "completed"
    local made, dedup, parent = facts(job, owner)
    if not made then
      return -1
    end
    local fault = completed and not childless and children(key) or 0
    if fault == 0 then
      fault = leave(job, owner)
    end
    if fault < 0 then
      return fault
    end

    if dedup then
      dedup_freed(q, dedup, id)
      dedup_next(q, dedup, tonumber(now))
    end
    local x = parent and parent_of(key)
    if x and completed then
      child_completed(x, key, value, tonumber(now))
    elseif x then
      child_failed(x, key, value, tonumber(now))
    end

    if rule then
      store(job, made)
    else
      left = nil
      call("HSET", key, "atm", made, "returnvalue", value, "finishedOn", now)
      kept[kept_last + 1], kept[kept_last + 2] = now, id
      kept_last = kept_last + 2
    end
    if completed then
      call("XADD", events, "*", "event", "completed", "jobId", id, "returnvalue", value, "prev", "active")
    else
      announce_failed(job, made)
    end
    if points > 0 then
      count_minute(q, completed and "completed" or "failed", now, points)
    end
    return 0
  end

  local answers, ended, done, fault = {}, before, 0, nil
  for i = 1, before do
    answers[i] = 0
  end

  -- finish_rest goes on behind the last job that was looked at.
  local function finish_rest()
    while done < n do
      done = done + 1
      local answer = finish(jobs[done], owners[done])
      answers[before + done] = answer
      if answer == 0 then
        ended = ended + 1
      end
    end
  end

  check()
  look_ahead()
  read_active()
  while done < n do
    local ok, err = pcall(finish_rest)
    if not ok then
      fault = fault or err
      answers[before + done] = { "error", type(err) == "table" and err.err or tostring(err) }
      if left then
        come_back(left)
        left = nil
      end
    end
  end
  -- A fault of one, a parent that is no hash, is its own; what befalls all, a Redis that takes no writes, is the call's.
  if fault and ended == 0 then
    error(fault, 0)
  end
  flush()
  return ended, ended < before + n and answers or {}
end
