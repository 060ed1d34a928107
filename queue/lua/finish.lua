-- include: keep
-- include: lock
-- include: take
-- finish.lua: active jobs end as completed or failed, each with its parent, its deduplication and its keep rule served in the same step;
-- then the next jobs are taken, if the caller asks for some.
--
-- KEYS[1]  queue base
-- ARGV     1 metrics points kept, 0 = none
--          2 how many jobs to take, at most as many as have ended, by 3 now ms, 4 token, 5 lock ms, 6 worker name, 7 limiter max,
--          8 limiter duration
--          9… each job: how it ends, id, return value (JSON) or failed reason (raw text). How: "-" = completed, kept for ever; "" = the same for a
--          job that was taken as it was added (see as_added in include/take.lua); else "state count age limit attempts n", state c(ompleted) or
--          f(ailed), "-" = no such rule, and n extra values: fields of the job, name, value, …
--          before the first job, and where it changes: "@", token, now ms of those that follow
-- Returns  {{an answer for each job}, answer of take() or nothing}; an answer is 0 | -1 no such job | -2 no lock | -3 not active |
--          -4 pending children | -6 another's lock | -9 failed children | {"error", text}
local q, points = KEYS[1], tonumber(ARGV[1])

-- What many jobs have in common is written once, in the order of the jobs: kept are those that are completed without a rule.
local locks, ids, kept, unlocked, kept_last = {}, {}, {}, 0, 0

local function flush_kept()
  if kept_last > 0 then
    call("ZADD", q .. "completed", unpack(kept))
    kept, kept_last = {}, 0
  end
end

-- The jobs of the call: where in ARGV each begins, its key and its lock's, and the token and time that it has in common with others. rules
-- has those that end in any other way than the common one.
local n, at_of, key_of, lock_of, common_of, rules = 0, {}, {}, {}, {}, {}

-- read_rule reads how a job ends; its fields begin at ARGV[at]. Answers where the next job does.
local function read_rule(text, at)
  local state, count, age, limit, attempts, fields = string.match(text, "^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$")
  local last = at - 1 + tonumber(fields)
  rules[n] = {
    target = state == "c" and "completed" or "failed", count = tonumber(count), age = tonumber(age), limit = tonumber(limit),
    attempts = tonumber(attempts), first = at, last = last,
  }
  return last + 1
end

local function read_jobs()
  local argv, q, at, common = ARGV, q, 9, 0
  local rule = argv[at]
  while rule do
    if rule == "@" then
      common = at
      at = at + 3
    else
      n = n + 1
      local key = q .. argv[at + 1]
      at_of[n], key_of[n], lock_of[n], common_of[n] = at, key, key .. ":lock", common
      at = at + 3
      if rule ~= "" and rule ~= "-" then
        at = read_rule(rule, at)
      end
    end
    rule = argv[at]
  end
end

-- What the checks of a batch look at is read for all of it at once. A job that fails may mark its parent, which may be in the batch, too:
-- then each job's children are looked at in their turn.
local owners, childless = {}, false

local function look_ahead()
  owners = call("MGET", unpack(lock_of))
  for _, rule in pairs(rules) do
    if rule.target == "failed" then
      return
    end
  end
  local child_keys = {}
  for i = 1, n do
    child_keys[2 * i - 1] = key_of[i] .. ":dependencies"
    child_keys[2 * i] = key_of[i] .. ":unsuccessful"
  end
  childless = call("EXISTS", unpack(child_keys)) == 0
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

-- off_active takes one occurrence of the id off the active list, the rightmost one; false: there was none.
local function off_active(id)
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
local function children(job)
  if call("EXISTS", job .. ":dependencies", job .. ":unsuccessful") == 0 then
    return 0
  end
  if call("SCARD", job .. ":dependencies") ~= 0 then
    return -4
  end
  return call("ZCARD", job .. ":unsuccessful") ~= 0 and -9 or 0
end

-- leave takes the job off the active list: 0, -2, -3 or -6.
local function leave(i, id, token, rule)
  local owner = owners[i]
  if token ~= "0" then
    if owner ~= token then
      return owner and -6 or -2
    end
    unlocked = unlocked + 1
    locks[unlocked], ids[unlocked] = lock_of[i], id
  end
  if rule and rule.last > rule.first then
    call("HSET", key_of[i], unpack(ARGV, rule.first, rule.last))
  end
  return off_active(id) and 0 or -3
end

-- count_minute books the job in the per-minute series; a gap is booked on its oldest minute.
local function count_minute(target, now)
  local key = q .. "metrics:" .. target
  local before = call("HINCRBY", key, "count", 1) - 1
  local last = call("HMGET", key, "prevTS", "prevCount")
  if not last[1] then
    call("HSET", key, "prevTS", now, "prevCount", 0)
    return
  end
  local minutes = math.min(math.floor(tonumber(now) / 60000) - math.floor(tonumber(last[1]) / 60000), points)
  if minutes <= 0 then
    return
  end
  call("LPUSH", key .. ":data", before - (tonumber(last[2]) or 0))
  for _ = 2, minutes do
    call("LPUSH", key .. ":data", 0)
  end
  call("LTRIM", key .. ":data", 0, points - 1)
  call("HSET", key, "prevCount", before, "prevTS", now)
end

-- store leaves the end in the hash of a job that ends by a rule, and its id among the finished ones, or nothing at all.
local function store(i, id, now, value, rule, made)
  local job = key_of[i]
  if rule.count == 0 then
    child_gone(q, job, false)
    drop_keys(job)
    return
  end
  call("HSET", job, "atm", made, rule.target == "completed" and "returnvalue" or "failedReason", value, "finishedOn", now)
  flush_kept()
  call("ZADD", q .. rule.target, now, id)
  if rule.target == "failed" then
    call("HDEL", job, "defa")
  end
  keep_newest(q, q .. rule.target, tonumber(now), rule.age, rule.count, rule.limit)
end

local function announce_failed(id, reason, rule, made)
  emit(q, "failed", "jobId", id, "failedReason", reason, "prev", "active")
  if tonumber(made) >= (rule.attempts or 0) then
    emit(q, "retries-exhausted", "jobId", id, "attemptsMade", made)
  end
end

-- facts answers attempts made, deduplication id and parent's key, or nothing if there is no such job. A job that was taken as it was added
-- has just the fields of then and those that its start has written: if there are no more of them, neither is there a parent, and while we
-- have the lock nothing else comes or goes.
local started_fields = ARGV[6] == "" and 8 or 9

local function facts(i, token)
  local job = key_of[i]
  if ARGV[at_of[i]] == "" and owners[i] == token and call("HLEN", job) == started_fields then
    return "1", false, false
  end
  local hash = call("HMGET", job, "ats", "atm", "deid", "parentKey")
  if not hash[1] and call("EXISTS", job) == 0 then
    return nil
  end
  return string.format("%.0f", (tonumber(hash[2] or nil) or 0) + 1), hash[3], hash[4]
end

local trimmed, events = false, stream_of(q)

local function finish(i)
  local at, job, rule = at_of[i], key_of[i], rules[i]
  local id, value, token, now = ARGV[at + 1], ARGV[at + 2], ARGV[common_of[i] + 1], ARGV[common_of[i] + 2]
  local completed = not rule or rule.target == "completed"
  local made, dedup, parent = facts(i, token)
  if not made then
    return -1
  end
  local fault = completed and not childless and children(job) or 0
  if fault == 0 then
    fault = leave(i, id, token, rule)
  end
  if fault < 0 then
    return fault
  end
  if not trimmed then
    trim_events(q)
    trimmed = true
  end

  if dedup then
    dedup_freed(q, dedup, id)
    dedup_next(q, dedup, tonumber(now))
  end
  local x = parent and parent_of(job)
  if x and completed then
    child_completed(x, job, value, tonumber(now))
  elseif x then
    child_failed(x, job, value, tonumber(now))
  end

  if rule then
    store(i, id, now, value, rule, made)
  else
    call("HSET", job, "atm", made, "returnvalue", value, "finishedOn", now)
    kept[kept_last + 1], kept[kept_last + 2] = now, id
    kept_last = kept_last + 2
  end
  if completed then
    call("XADD", events, "*", "event", "completed", "jobId", id, "returnvalue", value, "prev", "active")
  else
    announce_failed(id, value, rule, made)
  end
  if points > 0 then
    count_minute(completed and "completed" or "failed", now)
  end
  return 0
end

local answers, ended, done, fault = {}, 0, 0, nil

-- finish_rest goes on behind the last job that was looked at.
local function finish_rest()
  while done < n do
    done = done + 1
    local answer = finish(done)
    answers[done] = answer
    if answer == 0 then
      ended = ended + 1
    end
  end
end

read_jobs()
look_ahead()
read_active()
while done < n do
  local ok, err = pcall(finish_rest)
  if not ok then
    fault = fault or err
    answers[done] = { "error", type(err) == "table" and err.err or tostring(err) }
  end
end
-- A fault of one, a parent that is no hash, is its own; what befalls all, a Redis that takes no writes, is the call's.
if fault and ended == 0 then
  error(fault, 0)
end
flush()

local most = math.min(ended, tonumber(ARGV[2]))
if most > 0 then
  local got = take(q, {
    now = ARGV[3], token = ARGV[4], lock_ms = ARGV[5], worker = ARGV[6], max = ARGV[7], duration = ARGV[8],
  }, most)
  if got[1] ~= "none" or got[2] > 0 or got[4] ~= "" then
    return { answers, got }
  end
end

if ended > 0 and call("LLEN", q .. "active") == 0 and call("LLEN", q .. "wait") == 0
  and call("ZCARD", q .. "prioritized") == 0 then
  emit(q, "drained")
end
return { answers }
