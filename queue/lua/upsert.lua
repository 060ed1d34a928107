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

local function take_off(id)
  return redis.call("ZREM", q .. "delayed", id) == 1 or redis.call("ZREM", q .. "prioritized", id) == 1
    or redis.call("LREM", q .. "wait", 1, id) == 1 or redis.call("LREM", q .. "paused", 1, id) == 1
end

-- remove_pending: the iteration that has not begun yet makes room for the new one.
local function remove_pending()
  if not pending or not taken(pending) or not take_off(id_at(pending)) then
    return false
  end
  erase(q, id_at(pending), true)
  return true
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

local same_every = every and tonumber(redis.call("HGET", key, "every") or nil) == every
local ms = tonumber(ARGV[3])
-- The pending iteration must not be lost for a job that stands in the new one's way.
if ms and ms ~= pending and taken(ms) and not redis.call("ZSCORE", q .. "completed", id_at(ms))
  and not redis.call("ZSCORE", q .. "failed", id_at(ms)) then
  return -10
end

local stored_offset = offset
local removed = remove_pending()
if every then
  ms = math.floor(next_slot(same_every and pending or nil))
end
if not removed then
  stored_offset = offset or (every and ms - math.floor(ms / every) * every) or 0
elseif same_every then
  ms = pending
end

if every then
  local scanned = 0
  while taken(ms) and scanned < 32 do
    ms, scanned = ms + every, scanned + 1
  end
  if taken(ms) then
    return -11
  end
elseif taken(ms) and not (removed and finished_gives_way(id_at(ms))) then
  return -10
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
