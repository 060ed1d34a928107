-- include: keep
-- include: lock
-- include: take
-- finish.lua: an active job ends as completed or failed. The parent, the deduplication and the keep rules are served in the same step.
--
-- KEYS[1]  queue base
-- ARGV     1 id            2 now ms                3 "completed" or "failed"   4 return value (JSON) or failed reason (raw text)
--          5 token         6 keep count or ""      7 keep age s or ""          8 keep limit or ""
--          9 attempts allowed                     10 metrics points kept, 0 = none
--         11 "1" = take the next job in the same step, by 12 lock ms, 13 worker name, 14 limiter max, 15 limiter duration
--         16… extra fields of the job: name, value, …
-- Returns  0 | the answer of take() | -1 no such job | -2 no lock | -3 not active | -4 pending children | -6 another's lock |
--          -9 failed children
local q = KEYS[1]
local id, now, target, value, token = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local keep_count, keep_age, keep_limit = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local job = q .. id

if redis.call("EXISTS", job) == 0 then
  return -1
end
if target == "completed" then
  if redis.call("SCARD", job .. ":dependencies") ~= 0 then
    return -4
  end
  if redis.call("ZCARD", job .. ":unsuccessful") ~= 0 then
    return -9
  end
end
local fault = leave_active(q, id, token, 16)
if fault < 0 then
  return fault
end
trim_events(q)

local dedup = redis.call("HGET", job, "deid")
if dedup then
  dedup_freed(q, dedup, id)
  dedup_next(q, dedup, now)
end

local x = parent_of(job)
if x and target == "completed" then
  child_completed(x, job, value, now)
elseif x then
  child_failed(x, job, value, now)
end

local made = redis.call("HINCRBY", job, "atm", 1)

if keep_count == 0 then
  child_gone(q, job, false)
  drop_keys(job)
else
  redis.call("ZADD", q .. target, now, id)
  redis.call("HSET", job, target == "completed" and "returnvalue" or "failedReason", value, "finishedOn", now)
  if target == "failed" then
    redis.call("HDEL", job, "defa")
  end
  keep_newest(q, q .. target, now, keep_age, keep_count, keep_limit)
end

if target == "completed" then
  emit(q, "completed", "jobId", id, "returnvalue", value, "prev", "active")
else
  emit(q, "failed", "jobId", id, "failedReason", value, "prev", "active")
  if made >= (tonumber(ARGV[9]) or 0) then
    emit(q, "retries-exhausted", "jobId", id, "attemptsMade", made)
  end
end

-- count_minute books the job in the per-minute series; a gap is booked on its oldest minute.
local function count_minute(points)
  local key = q .. "metrics:" .. target
  local before = redis.call("HINCRBY", key, "count", 1) - 1
  local last = redis.call("HMGET", key, "prevTS", "prevCount")
  if not last[1] then
    redis.call("HSET", key, "prevTS", now, "prevCount", 0)
    return
  end
  local minutes = math.min(math.floor(now / 60000) - math.floor(tonumber(last[1]) / 60000), points)
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

local points = tonumber(ARGV[10]) or 0
if points > 0 then
  count_minute(points)
end

if ARGV[11] == "1" then
  local got = take(q, {
    now = now, token = token, lock_ms = ARGV[12], worker = ARGV[13], max = ARGV[14], duration = ARGV[15],
  })
  if got[1] ~= "none" or got[2] > 0 then
    return got
  end
end

if redis.call("LLEN", q .. "wait") == 0 and redis.call("LLEN", q .. "active") == 0
  and redis.call("ZCARD", q .. "prioritized") == 0 then
  emit(q, "drained")
end
return 0
