-- include: family
-- upsert.lua: makes a job scheduler, or changes one, and puts its next iteration in the place of the pending one.
--
-- KEYS[1]  queue base
-- ARGV     1 scheduler id   2 now ms   3 ms of the next iteration, of a pattern
--          4 every ms, of none   5 its offset ms   6 start ms   7 end ms   8 limit   9 time zone   10 pattern   (each or "")
--         11 name of the jobs   12 their data (JSON)   13 their options (JSON), "" = none
--         14 opts of the iteration (JSON), cut off in the middle of the job id, which is "repeat:<scheduler>:" and the ms
--         15 priority   16 "1" = front of the list
-- Returns  {id of the iteration, its delay ms} | -10 a job has that id | -11 jobs have the ids of all of the next slots
local q, scheduler, now = KEYS[1], ARGV[1], tonumber(ARGV[2])
local every, offset, starts = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local key = q .. "repeat:" .. scheduler
local pending = tonumber(redis.call("ZSCORE", q .. "repeat", scheduler) or nil)

local function id_at(ms)
  return string.format("repeat:%s:%.0f", scheduler, ms)
end

local function taken(ms)
  return redis.call("EXISTS", q .. id_at(ms)) == 1
end

-- aligned is the first slot after now.
local function aligned()
  local slot = math.floor(now / every) * every + (offset or 0)
  return slot > now and slot or slot + every
end

-- next_slot is the slot after prev; the first one without it.
local function next_slot(prev)
  if prev then
    return prev + every < now and aligned() or prev + every
  elseif starts then
    return math.max(starts, now)
  elseif offset and offset > 0 then
    return aligned()
  end
  return now
end

-- removable: the pending iteration has not begun yet and makes room for the new one.
local removable = false
if pending and taken(pending) then
  local id = id_at(pending)
  removable = redis.call("ZSCORE", q .. "delayed", id) or redis.call("ZSCORE", q .. "prioritized", id)
    or redis.call("LPOS", q .. "wait", id) or redis.call("LPOS", q .. "paused", id)
end

local function remove_pending()
  local id = id_at(pending)
  redis.call("ZREM", q .. "delayed", id)
  redis.call("ZREM", q .. "prioritized", id)
  redis.call("LREM", q .. "wait", 1, id)
  redis.call("LREM", q .. "paused", 1, id)
  erase(q, id, true)
end

local function vacant(ms)
  return removable and ms == pending or not taken(ms)
end

-- finished_gives_way deletes a finished job that has the id.
local function finished_gives_way(id)
  if redis.call("ZREM", q .. "completed", id) + redis.call("ZREM", q .. "failed", id) == 0 then
    return false
  end
  erase(q, id, true)
  return true
end

local function store(ms, stored_offset)
  local fields = { "name", ARGV[11] }
  local function optional(field, value)
    if value and value ~= "" then
      fields[#fields + 1] = field
      fields[#fields + 1] = value
    end
  end
  optional("tz", ARGV[9])
  optional("limit", ARGV[8])
  optional("pattern", ARGV[10])
  optional("startDate", ARGV[6])
  optional("endDate", ARGV[7])
  optional("every", ARGV[4])
  optional("offset", stored_offset or redis.call("HGET", key, "offset"))
  optional("opts", ARGV[13])
  optional("data", ARGV[12] ~= "{}" and ARGV[12])
  optional("ic", redis.call("HGET", key, "ic") or "1")
  redis.call("ZADD", q .. "repeat", ms, scheduler)
  redis.call("DEL", key)
  redis.call("HSET", key, unpack(fields))
end

-- Whether there is a place for the new iteration is asked before anything is changed.
local same_every = every and tonumber(redis.call("HGET", key, "every") or nil) == every
local ms, stored_offset = tonumber(ARGV[3]), offset
if every then
  ms = math.floor(next_slot(same_every and pending or nil))
end
if not removable then
  stored_offset = offset or (every and ms - math.floor(ms / every) * every) or 0
elseif same_every then
  ms = pending
end
if every then
  local scanned = 0
  while not vacant(ms) and scanned < 32 do
    ms, scanned = ms + every, scanned + 1
  end
  if not vacant(ms) then
    return -11
  end
elseif not vacant(ms) and not (removable and finished_gives_way(id_at(ms))) then
  return -10
end
if removable then
  remove_pending()
end

local id, delay = id_at(ms), math.max(ms - now, 0)
max_events(q)
store(ms, stored_offset)
redis.call("INCR", q .. "id")
local tail = string.format('%.0f","delay":%.0f', ms, delay)
if not every then
  tail = tail .. string.format(',"prevMillis":%.0f', ms)
end
write_job(q, id, {
  name = ARGV[11], data = ARGV[12], opts = ARGV[14] .. tail .. "}", timestamp = now, delay = delay, priority = ARGV[15],
  scheduler = scheduler,
})
enqueue(q, id, now, delay, tonumber(ARGV[15]), ARGV[16] == "1")
return { id, delay }
