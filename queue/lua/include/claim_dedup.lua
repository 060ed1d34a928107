-- include: dedup
-- claim_dedup.lua: a new job that carries a deduplication id.

-- is_active: the id is in the active list.
local function is_active(q, id)
  return redis.call("LPOS", q .. "active", id) and true or false
end

-- claim_dedup decides whether the job j (id, name, data, opts, timestamp, delay, parent…) may be added: nil, or the id of the job that
-- stands in its way. d: id, ttl, extend, replace, keep_last, reschedule.
local function claim_dedup(q, d, j)
  local key = q .. "de:" .. d.id
  local next_key = q .. "dn:" .. d.id

  local function own(id)
    if d.ttl > 0 and not d.keep_last then
      redis.call("SET", key, id, "PX", d.ttl)
    else
      redis.call("SET", key, id)
    end
  end

  local function tell(winner, loser)
    emit_trimmed(q, "deduplicated", "jobId", winner, "deduplicationId", d.id, "deduplicatedJobId", loser)
  end

  -- A key without expiry whose owner's hash is gone would refuse for ever.
  local function stale(owner)
    if redis.call("PTTL", key) ~= -1 or redis.call("EXISTS", q .. owner) == 1 then
      return false
    end
    redis.call("DEL", key, next_key)
    own(j.id)
    return true
  end

  local function kept_for_later(owner)
    if not d.keep_last or not is_active(q, owner) then
      return false
    end
    redis.call("DEL", next_key)
    local fields = { "name", j.name, "data", j.data, "opts", j.opts, "jid", j.id }
    for field, value in pairs({ pk = j.parent_key, pd = j.parent, rjk = j.scheduler }) do
      if value ~= "" then
        fields[#fields + 1] = field
        fields[#fields + 1] = value
      end
    end
    if j.parent_key ~= "" then
      fields[#fields + 1] = "pdk"
      fields[#fields + 1] = j.parent_key .. ":dependencies"
    end
    redis.call("HSET", next_key, unpack(fields))
    redis.call("PERSIST", key)
    tell(owner, j.id)
    return true
  end

  local function replaced(owner)
    if redis.call("ZREM", q .. "delayed", owner) == 1 then
      drop_keys(q .. owner)
      emit(q, "removed", "jobId", owner, "prev", "delayed")
      tell(j.id, owner)
      redis.call("DEL", next_key)
      if d.ttl > 0 and not d.extend and not d.keep_last then
        redis.call("SET", key, j.id, "KEEPTTL")
      else
        own(j.id)
      end
      return nil
    end
    if stale(owner) then
      return nil
    end
    kept_for_later(owner)
    return owner
  end

  local owner = redis.call("GET", key)
  if not owner then
    own(j.id)
    return nil
  end
  if d.replace then
    return replaced(owner)
  end
  if stale(owner) then
    return nil
  end
  if kept_for_later(owner) then
    return owner
  end
  if d.ttl > 0 and d.extend then
    own(owner)
  end
  tell(owner, j.id)
  if d.reschedule and redis.call("ZREM", q .. "delayed", owner) == 1 then
    redis.call("HSET", q .. owner, "delay", j.delay)
    schedule(q, owner, j.timestamp + j.delay)
    emit_trimmed(q, "delayed", "jobId", owner, "delay", j.timestamp + j.delay)
    wake_at_due(q)
  end
  return owner
end
