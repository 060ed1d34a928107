-- include: place
-- job.lua: the job hash and its companions.

-- drop_keys deletes everything that belongs to a job except its lock, which runs out by itself. Answers how many keys there were.
local function drop_keys(job)
  return redis.call("DEL", job, job .. ":logs", job .. ":dependencies", job .. ":processed", job .. ":failed",
    job .. ":unsuccessful")
end

local function set(value)
  return value and value ~= ""
end

-- write_job stores a new job's hash and announces it. j: name, data, opts, timestamp, delay, priority and, if set, parent_key,
-- parent, scheduler (rjk), dedup (deid).
local function write_job(q, id, j)
  if not (set(j.parent_key) or set(j.parent) or set(j.scheduler) or set(j.dedup)) then
    redis.call("HSET", q .. id, "name", j.name, "data", j.data, "opts", j.opts, "timestamp", j.timestamp, "delay", j.delay,
      "priority", j.priority)
    emit(q, "added", "jobId", id, "name", j.name)
    return
  end
  local fields = {
    "name", j.name, "data", j.data, "opts", j.opts, "timestamp", j.timestamp, "delay", j.delay, "priority", j.priority,
  }
  local function optional(field, value)
    if set(value) then
      fields[#fields + 1] = field
      fields[#fields + 1] = value
    end
  end
  optional("parentKey", j.parent_key)
  optional("parent", j.parent)
  optional("rjk", j.scheduler)
  optional("deid", j.dedup)
  redis.call("HSET", q .. id, unpack(fields))
  emit(q, "added", "jobId", id, "name", j.name)
end

-- enqueue puts a new job where its options say and announces that.
local function enqueue(q, id, timestamp, delay, priority, lifo)
  if delay > 0 then
    local due = timestamp + delay
    schedule(q, id, due)
    emit_trimmed(q, "delayed", "jobId", id, "delay", due)
    wake_at_due(q)
    return
  end
  put(q, id, priority, lifo)
  emit_trimmed(q, "waiting", "jobId", id)
end

-- set_fields writes the pairs ARGV[first], ARGV[first + 1], … into the job's hash.
local function set_fields(job, first)
  if #ARGV > first then
    redis.call("HSET", job, unpack(ARGV, first))
  end
end
