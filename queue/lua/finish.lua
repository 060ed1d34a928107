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
--          9… each job: id, token, now ms, return value (JSON) or failed reason (raw text), and how it ends: "-" = completed, kept for ever; "" = the
--          same for a job that had no deduplication and no attempt behind it when it was taken; else "state count age limit attempts n", state c(ompleted) or f(ailed), "-" = no such rule, and n extra values: fields
--          of the job, name, value, …
-- Returns  {{an answer for each job}, answer of take() or nothing}; an answer is 0 | -1 no such job | -2 no lock | -3 not active |
--          -4 pending children | -6 another's lock | -9 failed children | {"error", text}
local q, points = KEYS[1], tonumber(ARGV[1])

-- What many jobs have in common is written once, in the order of the jobs: kept are those that are completed without a rule.
local locks, ids, kept = {}, {}, {}

local function flush_kept()
  if kept[1] then
    redis.call("ZADD", q .. "completed", unpack(kept))
    kept = {}
  end
end

-- read answers the job that begins at ARGV[at], and where the next one does.
local function read(at)
  local e = { id = ARGV[at], job = q .. ARGV[at], token = ARGV[at + 1], now = ARGV[at + 2], value = ARGV[at + 3], target = "completed", first = at + 5, last = at + 4 }
  local rule = ARGV[at + 4]
  if rule == "" then
    e.plain = true
  elseif rule ~= "-" then
    local state, count, age, limit, attempts, n = string.match(rule, "^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$")
    e.rule, e.target = true, state == "c" and "completed" or "failed"
    e.count, e.age, e.limit, e.attempts = tonumber(count), tonumber(age), tonumber(limit), tonumber(attempts)
    e.last = e.last + tonumber(n)
  end
  return e, e.last + 1
end

-- What the checks of a batch look at is read for all of it at once. A job that fails may mark its parent, which may be in the batch, too:
-- then each job's children are looked at in their turn.
local owners, childless = {}, false

local function look_ahead(batch)
  local lock_keys, child_keys, failing = {}, {}, false
  for i, e in ipairs(batch) do
    local job = e.job
    e.lock = job .. ":lock"
    lock_keys[i] = e.lock
    child_keys[2 * i - 1] = job .. ":dependencies"
    child_keys[2 * i] = job .. ":unsuccessful"
    failing = failing or e.target == "failed"
  end
  owners = redis.call("MGET", unpack(lock_keys))
  childless = not failing and redis.call("EXISTS", unpack(child_keys)) == 0
end

-- Taking many ids off a short list one by one costs more than writing it anew. It is put off to the end, unless somebody counts meanwhile.
local running, order, gone = nil, nil, {}

local function read_active(batch)
  if #batch < 8 or meta_of(q).concurrency or redis.call("LLEN", q .. "active") > 4 * #batch + 32 then
    return
  end
  running, order = {}, redis.call("LRANGE", q .. "active", "0", "-1")
  for _, id in ipairs(order) do
    running[id] = (running[id] or 0) + 1
  end
end

-- off_active takes one occurrence of the id off the active list, the rightmost one; false: there was none.
local function off_active(id)
  if not running then
    return redis.call("LREM", q .. "active", "-1", id) == 1
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
  redis.call("DEL", q .. "active")
  if stay[1] then
    redis.call("LPUSH", q .. "active", unpack(stay))
  end
end

local function flush()
  if locks[1] then
    redis.call("DEL", unpack(locks))
    redis.call("SREM", q .. "stalled", unpack(ids))
  end
  flush_kept()
  flush_active()
end

-- children answers what a job's children have against its completion.
local function children(job)
  if childless or redis.call("EXISTS", job .. ":dependencies", job .. ":unsuccessful") == 0 then
    return 0
  end
  if redis.call("SCARD", job .. ":dependencies") ~= 0 then
    return -4
  end
  return redis.call("ZCARD", job .. ":unsuccessful") ~= 0 and -9 or 0
end

-- leave takes the job off the active list: 0, -2, -3 or -6.
local function leave(job, e, owner)
  if e.token ~= "0" then
    if owner ~= e.token then
      return owner and -6 or -2
    end
    locks[#locks + 1] = e.lock
    ids[#ids + 1] = e.id
  end
  if e.last > e.first then
    redis.call("HSET", job, unpack(ARGV, e.first, e.last))
  end
  return off_active(e.id) and 0 or -3
end

-- count_minute books the job in the per-minute series; a gap is booked on its oldest minute.
local function count_minute(target, now)
  local key = q .. "metrics:" .. target
  local before = redis.call("HINCRBY", key, "count", 1) - 1
  local last = redis.call("HMGET", key, "prevTS", "prevCount")
  if not last[1] then
    redis.call("HSET", key, "prevTS", now, "prevCount", 0)
    return
  end
  local minutes = math.min(math.floor(tonumber(now) / 60000) - math.floor(tonumber(last[1]) / 60000), points)
  if minutes <= 0 then
    return
  end
  redis.call("LPUSH", key .. ":data", before - (tonumber(last[2]) or 0))
  for _ = 2, minutes do
    redis.call("LPUSH", key .. ":data", 0)
  end
  redis.call("LTRIM", key .. ":data", 0, points - 1)
  redis.call("HSET", key, "prevCount", before, "prevTS", now)
end

-- store leaves the end in the job's hash and its id among the finished ones, or nothing at all, as its rule says.
local function store(job, e, made)
  if e.count == 0 then
    child_gone(q, job, false)
    drop_keys(job)
    return
  end
  redis.call("HSET", job, "atm", made == 1 and "1" or made, e.target == "completed" and "returnvalue" or "failedReason", e.value, "finishedOn", e.now)
  if not e.rule then
    kept[#kept + 1] = e.now
    kept[#kept + 1] = e.id
    return
  end
  flush_kept()
  redis.call("ZADD", q .. e.target, e.now, e.id)
  if e.target == "failed" then
    redis.call("HDEL", job, "defa")
  end
  keep_newest(q, q .. e.target, tonumber(e.now), e.age, e.count, e.limit)
end

local function announce(e, made)
  if e.target == "completed" then
    emit(q, "completed", "jobId", e.id, "returnvalue", e.value, "prev", "active")
    return
  end
  emit(q, "failed", "jobId", e.id, "failedReason", e.value, "prev", "active")
  if made >= (e.attempts or 0) then
    emit(q, "retries-exhausted", "jobId", e.id, "attemptsMade", made)
  end
end

local trimmed = false

local function finish(e, owner)
  local job = e.job
  -- A plain job has no deduplication and no attempt behind it, and neither can come while it is locked; a parent can.
  local hash
  if e.plain and owner == e.token then
    hash = redis.call("HMGET", job, "ats", "parentKey")
    hash[4], hash[2] = hash[2], nil
  else
    hash = redis.call("HMGET", job, "ats", "atm", "deid", "parentKey")
  end
  if not hash[1] and redis.call("EXISTS", job) == 0 then
    return -1
  end
  local fault = e.target == "completed" and children(job) or 0
  if fault == 0 then
    fault = leave(job, e, owner)
  end
  if fault < 0 then
    return fault
  end
  if not trimmed then
    trim_events(q)
    trimmed = true
  end

  if hash[3] then
    dedup_freed(q, hash[3], e.id)
    dedup_next(q, hash[3], tonumber(e.now))
  end
  local x = hash[4] and parent_of(job)
  if x and e.target == "completed" then
    child_completed(x, job, e.value, tonumber(e.now))
  elseif x then
    child_failed(x, job, e.value, tonumber(e.now))
  end

  local made = (tonumber(hash[2] or nil) or 0) + 1
  store(job, e, made)
  announce(e, made)
  if points > 0 then
    count_minute(e.target, e.now)
  end
  return 0
end

local batch, answers, ended, at, fault = {}, {}, 0, 9, nil
while at <= #ARGV do
  batch[#batch + 1], at = read(at)
end
look_ahead(batch)
read_active(batch)
for i, e in ipairs(batch) do
  local ok, answer = pcall(finish, e, owners[i])
  if not ok then
    fault = fault or answer
    answer = { "error", type(answer) == "table" and answer.err or tostring(answer) }
  end
  answers[i] = answer
  if answer == 0 then
    ended = ended + 1
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
  if got[1] ~= "none" or got[2] > 0 or got[4][1] then
    return { answers, got }
  end
end

if ended > 0 and redis.call("LLEN", q .. "active") == 0 and redis.call("LLEN", q .. "wait") == 0
  and redis.call("ZCARD", q .. "prioritized") == 0 then
  emit(q, "drained")
end
return { answers }
