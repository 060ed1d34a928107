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

-- place_of answers priority and delay of a parent, before anything is written: it fails where the key is no job or its queue no queue.
local function place_of(x)
  local fields = redis.call("HMGET", x.key, "priority", "delay")
  redis.call("LLEN", waiting_list(x.q))
  trim_events(x.q)
  return tonumber(fields[1]) or 0, tonumber(fields[2]) or 0
end

-- free puts a parent that waited for its children where its own options say.
local function free(x, now, priority, delay)
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
  if redis.call("EXISTS", x.key) == 0 then
    return
  end
  local priority, delay = place_of(x)
  if redis.call("ZREM", x.q .. "waiting-children", x.id) == 1 then
    free(x, now, priority, delay)
  end
end

-- settled takes a child off the pending ones: false if it was not among them, else how many are left.
local function settled(x, child)
  if redis.call("SREM", x.key .. ":dependencies", child) == 0 then
    return false
  end
  return redis.call("SCARD", x.key .. ":dependencies")
end

-- settle lets tell(x, child, value, now, left) do what a child's end means for a parent that counts on it. A parent that can't be told
-- counts on it still, so that the end can be told again.
local function settle(x, child, value, now, tell)
  local left = settled(x, child)
  if left == false then
    return
  end
  local ok, err = pcall(tell, x, child, value, now, left)
  if not ok then
    redis.call("SADD", x.key .. ":dependencies", child)
    error(err, 0)
  end
end

local function tell_completed(x, child, value, now, left)
  redis.call("HSET", x.key .. ":processed", child, value)
  if left == 0 then
    release(x, now)
  end
end

-- child_completed hands the child's value to the parent; the last child releases it.
local function child_completed(x, child, value, now)
  settle(x, child, value, now, tell_completed)
end

-- fail_parent marks the parent: whoever takes it fails it.
local function fail_parent(x, child, now)
  redis.call("ZADD", x.key .. ":unsuccessful", now, child)
  if redis.call("EXISTS", x.key) == 0 then
    return
  end
  local priority, delay = place_of(x)
  local waits = redis.call("ZREM", x.q .. "waiting-children", x.id) == 1
  local delayed = not waits and redis.call("ZREM", x.q .. "delayed", x.id) == 1
  if delayed then
    redis.call("HSET", x.key, "delay", 0)
    delay = 0
  end
  if waits or delayed or not redis.call("ZSCORE", x.q .. "failed", x.id) then
    redis.call("HSET", x.key, "defa", "child " .. child .. " failed")
  end
  if waits or delayed then
    free(x, now, priority, delay)
  end
end

local function tell_failed(x, child, reason, now, left)
  if x.fpof then
    fail_parent(x, child, now)
    return
  end
  if x.cpof or x.idof then
    redis.call("HSET", x.key .. ":failed", child, reason)
  end
  if x.cpof or left == 0 then
    release(x, now)
  end
end

-- child_failed does what the child's own options say about its parent; without one the parent waits on.
local function child_failed(x, child, reason, now)
  if x.fpof or x.cpof or x.idof or x.rdof then
    settle(x, child, reason, now, tell_failed)
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
