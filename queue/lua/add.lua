-- include: family
-- include: claim_dedup
-- add.lua: a new job of any kind.
--
-- KEYS[1]  queue base (prefix, name, last colon); every other key is made from it or from parentKey
-- ARGV     1 custom id or ""      2 name                 3 data (JSON)          4 opts (JSON, short names)
--          5 timestamp ms         6 delay ms             7 priority             8 "1" = front of the list
--          9 "1" = waits for children                   10 parentKey or ""     11 parent (JSON) or ""
--         12 deduplication id or ""                     13 its ttl ms or ""    14 its flags, letters of: e(xtend) r(eplace)
--            k(eep last if active) s (reschedule)       15 scheduler id or ""
-- Returns  {"added", id} | {"deduplicated", id of the owner} | {"duplicate", id, timestamp of the job that has the id}
--          -5 the parent does not exist | -7 the job that has the id belongs to another living parent
local q = KEYS[1]
local waits, parent_key = ARGV[9] == "1", ARGV[10]

if parent_key ~= "" and redis.call("EXISTS", parent_key) == 0 then
  return -5
end

local counter = redis.call("INCR", q .. "id")
max_events(q)

local j = {
  id = ARGV[1] ~= "" and ARGV[1] or tostring(counter),
  name = ARGV[2], data = ARGV[3], opts = ARGV[4],
  timestamp = ARGV[5], delay = ARGV[6], priority = ARGV[7],
  parent_key = parent_key, parent = ARGV[11], dedup = ARGV[12], scheduler = ARGV[15],
}
local job = q .. j.id

-- adopt makes the existing job a child of the new parent.
local function adopt(x)
  if redis.call("ZSCORE", q .. "completed", j.id) then
    local value = redis.call("HGET", job, "returnvalue")
    redis.call("HSET", x.key .. ":processed", job, value or "null")
    if redis.call("SCARD", x.key .. ":dependencies") == 0 then
      release(x, tonumber(j.timestamp))
    end
  else
    redis.call("SADD", x.key .. ":dependencies", job)
  end
end

if ARGV[1] ~= "" and redis.call("EXISTS", job) == 1 then
  if parent_key ~= "" then
    local old = redis.call("HGET", job, "parentKey")
    if old and old ~= parent_key and redis.call("EXISTS", old) == 1 then
      return -7
    end
    redis.call("HSET", job, "parentKey", parent_key, "parent", j.parent)
    adopt(parent_of(job))
  end
  emit_trimmed(q, "duplicated", "jobId", j.id)
  return { "duplicate", j.id, redis.call("HGET", job, "timestamp") or "" }
end

local timestamp, delay = tonumber(j.timestamp), tonumber(j.delay)
if j.dedup ~= "" then
  local owner = claim_dedup(q, {
    id = j.dedup,
    ttl = tonumber(ARGV[13]) or 0,
    extend = string.find(ARGV[14], "e", 1, true),
    replace = not waits and string.find(ARGV[14], "r", 1, true),
    keep_last = string.find(ARGV[14], "k", 1, true),
    reschedule = string.find(ARGV[14], "s", 1, true),
  }, {
    id = j.id, name = j.name, data = j.data, opts = j.opts, timestamp = timestamp, delay = delay,
    parent_key = parent_key, parent = j.parent, scheduler = j.scheduler,
  })
  if owner then
    return { "deduplicated", owner }
  end
end

write_job(q, j.id, j)
if waits then
  redis.call("ZADD", q .. "waiting-children", timestamp, j.id)
  emit_trimmed(q, "waiting-children", "jobId", j.id)
else
  enqueue(q, j.id, timestamp, delay, tonumber(j.priority), ARGV[8] == "1")
end
if parent_key ~= "" then
  redis.call("SADD", parent_key .. ":dependencies", job)
end
return { "added", j.id }
