-- include: family
-- include: claim_dedup
-- add_job.lua: a new job of any kind, alone or as a node of a flow.

-- taken_by answers the parent that stands in the way of a new one: another parent of the job that is still there, or nil.
local function taken_by(job, parent_key)
  local old = redis.call("HGET", job, "parentKey")
  if old and old ~= parent_key and redis.call("EXISTS", old) == 1 then
    return old
  end
  return nil
end

-- adopt makes the existing job a child of the new parent. In a flow (later) the parent is released when all children are attached.
local function adopt(q, j, job, later)
  redis.call("HSET", job, "parentKey", j.parent_key, "parent", j.parent)
  local x = parent_of(job)
  if not redis.call("ZSCORE", q .. "completed", j.id) then
    redis.call("SADD", x.key .. ":dependencies", job)
    return
  end
  redis.call("HSET", x.key .. ":processed", job, redis.call("HGET", job, "returnvalue") or "null")
  if not later and redis.call("SCARD", x.key .. ":dependencies") == 0 then
    release(x, tonumber(j.timestamp))
  end
end

-- read_addition reads one job from ARGV[at] on:
--           0 custom id or ""      1 name                 2 data (JSON)          3 opts (JSON, short names)
--           4 timestamp ms         5 delay ms             6 priority             7 "1" = front of the list
--           8 "1" = waits for children                    9 parentKey or ""     10 parent (JSON) or ""
--          11 deduplication id or ""                     12 its ttl ms or ""    13 its flags, letters of: e(xtend) r(eplace)
--             k(eep last if active) s (reschedule)       14 scheduler id or ""
-- The values from 4 on may stand elsewhere: at more.
local function read_addition(at, more)
  more = more or at + 4
  return {
    custom = ARGV[at], name = ARGV[at + 1], data = ARGV[at + 2], opts = ARGV[at + 3], timestamp = ARGV[more],
    delay = ARGV[more + 1], priority = ARGV[more + 2], lifo = ARGV[more + 3] == "1", waits = ARGV[more + 4] == "1",
    parent_key = ARGV[more + 5], parent = ARGV[more + 6], dedup = ARGV[more + 7], ttl = ARGV[more + 8], flags = ARGV[more + 9],
    scheduler = ARGV[more + 10],
  }
end

-- owner_of lets the deduplication decide: the id of the job that stands in the way, or nil.
local function owner_of(q, j)
  local function flag(letter)
    return string.find(j.flags, letter, 1, true)
  end
  return claim_dedup(q, {
    id = j.dedup, ttl = tonumber(j.ttl) or 0, extend = flag("e"), replace = not j.waits and flag("r"), keep_last = flag("k"),
    reschedule = flag("s"),
  }, {
    id = j.id, name = j.name, data = j.data, opts = j.opts, timestamp = tonumber(j.timestamp), delay = tonumber(j.delay),
    parent_key = j.parent_key, parent = j.parent, scheduler = j.scheduler,
  })
end

-- look_at reads what the job is going to be written to, before anything is: it fails where that is something else.
local function look_at(q, j)
  if j.waits then
    redis.call("ZSCORE", q .. "waiting-children", "0")
  elseif tonumber(j.delay) > 0 then
    redis.call("ZSCORE", q .. "delayed", "0")
  elseif tonumber(j.priority) > 0 then
    redis.call("ZSCORE", q .. "prioritized", "0")
    redis.call("GET", q .. "pc")
  else
    redis.call("LLEN", waiting_list(q))
  end
  if j.parent_key ~= "" then
    redis.call("SCARD", j.parent_key .. ":dependencies")
  end
  trim_events(q)
end

-- add_job adds what read_addition has read. Answers
--   {"added", id} | {"deduplicated", id of the owner} | {"duplicate", id, timestamp of the job that has the id}
--   -5 the parent does not exist | -7 the job that has the id belongs to another living parent
local function add_job(q, j, later)
  if j.parent_key ~= "" and redis.call("EXISTS", j.parent_key) == 0 then
    return -5
  end
  local counter = redis.call("INCR", q .. "id")
  max_events(q)
  j.id = j.custom ~= "" and j.custom or string.format("%.0f", counter)
  local job = q .. j.id
  if not later then
    look_at(q, j)
  end

  if j.custom ~= "" and redis.call("EXISTS", job) == 1 then
    if j.parent_key ~= "" then
      if taken_by(job, j.parent_key) then
        return -7
      end
      adopt(q, j, job, later)
    end
    emit_trimmed(q, "duplicated", "jobId", j.id)
    return { "duplicate", j.id, redis.call("HGET", job, "timestamp") or "" }
  end

  local owner = j.dedup ~= "" and owner_of(q, j)
  if owner then
    return { "deduplicated", owner }
  end

  write_job(q, j.id, j)
  if j.waits then
    redis.call("ZADD", q .. "waiting-children", j.timestamp, j.id)
    emit_trimmed(q, "waiting-children", "jobId", j.id)
  else
    enqueue(q, j.id, tonumber(j.timestamp), tonumber(j.delay), tonumber(j.priority), j.lifo)
  end
  if j.parent_key ~= "" then
    redis.call("SADD", j.parent_key .. ":dependencies", job)
  end
  return { "added", j.id }
end
