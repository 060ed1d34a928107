-- include: dedup
-- family.lua: what a child's end means for its parent. The parent X keeps X:dependencies (pending children), X:processed,
-- X:failed and X:unsuccessful, and waits in its queue's waiting-children.

-- parent_of answers key, queue base, id and failure flags of a job's parent, or nil.
local function parent_of(job)
  local fields = redis.call("HMGET", job, "parentKey", "parent")
  local key = fields[1]
  if not key then
    return nil
  end
  local ok, told = pcall(cjson.decode, fields[2] or "{}")
  if not ok or type(told) ~= "table" then
    told = {}
  end
  local q, id = string.match(key, "^(.*:)([^:]*)$")
  if type(told.queueKey) == "string" and told.id and told.queueKey .. ":" .. told.id == key then
    -- An id with a colon in it can't be cut off the key.
    q, id = told.queueKey .. ":", tostring(told.id)
  end
  return { key = key, q = q, id = id, fpof = told.fpof, cpof = told.cpof, idof = told.idof, rdof = told.rdof }
end

-- free puts a parent that waited for its children where its own options say.
local function free(x, now)
  local fields = redis.call("HMGET", x.key, "priority", "delay")
  local priority, delay = tonumber(fields[1]) or 0, tonumber(fields[2]) or 0
  if delay > 0 then
    redis.call("ZADD", x.q .. "delayed", (now + delay) * 4096, x.id)
    emit(x.q, "delayed", "jobId", x.id, "delay", now + delay)
    wake_at_due(x.q)
    return
  end
  put(x.q, x.id, priority, true)
  emit(x.q, "waiting", "jobId", x.id, "prev", "waiting-children")
end

-- release frees the parent if it is there and waits.
local function release(x, now)
  if redis.call("EXISTS", x.key) == 1 and redis.call("ZREM", x.q .. "waiting-children", x.id) == 1 then
    free(x, now)
  end
end

-- settled takes a child off the pending ones: false if it was not among them, else how many are left.
local function settled(x, child)
  if redis.call("SREM", x.key .. ":dependencies", child) == 0 then
    return false
  end
  return redis.call("SCARD", x.key .. ":dependencies")
end

-- child_completed hands the child's value to the parent; the last child releases it.
local function child_completed(x, child, value, now)
  local left = settled(x, child)
  if left == false then
    return
  end
  redis.call("HSET", x.key .. ":processed", child, value)
  if left == 0 then
    release(x, now)
  end
end

-- fail_parent marks the parent: whoever takes it fails it.
local function fail_parent(x, child, now)
  redis.call("ZADD", x.key .. ":unsuccessful", now, child)
  if redis.call("EXISTS", x.key) == 0 then
    return
  end
  local waits = redis.call("ZREM", x.q .. "waiting-children", x.id) == 1
  local delayed = not waits and redis.call("ZREM", x.q .. "delayed", x.id) == 1
  if delayed then
    redis.call("HSET", x.key, "delay", 0)
  end
  if waits or delayed or not redis.call("ZSCORE", x.q .. "failed", x.id) then
    redis.call("HSET", x.key, "defa", "child " .. child .. " failed")
  end
  if waits or delayed then
    free(x, now)
  end
end

-- child_failed does what the child's own options say about its parent; without one the parent waits on.
local function child_failed(x, child, reason, now)
  if not (x.fpof or x.cpof or x.idof or x.rdof) then
    return
  end
  local left = settled(x, child)
  if left == false then
    return
  end
  if x.fpof then
    fail_parent(x, child, now)
    return
  end
  if x.cpof then
    redis.call("HSET", x.key .. ":failed", child, reason)
    release(x, now)
    return
  end
  if left == 0 then
    release(x, now)
  end
  if x.idof then
    redis.call("HSET", x.key .. ":failed", child, reason)
  end
end

local erase

-- child_gone tells the parent that a job disappears. hard is for whole queues being emptied: a parent in the same queue that waited for
-- this child only goes with it.
local function child_gone(q, job, hard)
  local x = parent_of(job)
  if not x or redis.call("EXISTS", x.key) == 0 then
    return
  end
  if settled(x, job) ~= 0 or redis.call("ZREM", x.q .. "waiting-children", x.id) == 0 then
    return
  end
  if hard and x.q == q then
    erase(q, x.id, true)
    return
  end
  put(x.q, x.id, 0, true)
  if not hard then
    emit(x.q, "waiting", "jobId", x.id, "prev", "waiting-children")
  end
end

-- erase deletes a job that is in no list any more. Answers how many keys there were.
erase = function(q, id, hard)
  local job = q .. id
  child_gone(q, job, hard)
  dedup_dropped(q, job, id)
  return drop_keys(job)
end
