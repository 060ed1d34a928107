-- include: job
-- dedup.lua: de:<id> names the job that owns a deduplication id, dn:<id> holds the job to run after it.

-- dedup_freed gives the id back when its owner has finished. A key that runs out by time stays until then.
local function dedup_freed(q, dedup, id)
  local key = q .. "de:" .. dedup
  local left = redis.call("PTTL", key)
  if left == 0 or (left == -1 and redis.call("GET", key) == id) then
    redis.call("DEL", key)
  end
end

-- dedup_dropped gives the id back when its owner is removed.
local function dedup_dropped(q, job, id)
  local dedup = redis.call("HGET", job, "deid")
  if dedup and redis.call("GET", q .. "de:" .. dedup) == id then
    redis.call("DEL", q .. "de:" .. dedup, q .. "dn:" .. dedup)
  end
end

-- dedup_next queues the job that was kept back while the owner ran.
local function dedup_next(q, dedup, now)
  local key = q .. "dn:" .. dedup
  local flat = redis.call("HGETALL", key)
  if #flat == 0 then
    return
  end
  local kept = {}
  for i = 1, #flat, 2 do
    kept[flat[i]] = flat[i + 1]
  end
  redis.call("LLEN", waiting_list(q))
  local counter = redis.call("INCR", q .. "id")
  local id = kept.jid or string.format("%.0f", counter)
  local ok, opts = pcall(cjson.decode, kept.opts or "{}")
  opts = ok and type(opts) == "table" and opts or {}
  local de = type(opts.de) == "table" and opts.de or {}
  local ttl = tonumber(de.ttl) or 0
  if ttl > 0 and not de.keepLastIfActive then
    redis.call("SET", q .. "de:" .. dedup, id, "PX", ttl)
  else
    redis.call("SET", q .. "de:" .. dedup, id)
  end
  local delay, priority = tonumber(opts.delay) or 0, tonumber(opts.priority) or 0
  write_job(q, id, {
    name = kept.name, data = kept.data, opts = kept.opts, timestamp = now, delay = delay, priority = priority,
    parent_key = kept.pk, parent = kept.pd, scheduler = kept.rjk, dedup = dedup,
  })
  enqueue(q, id, now, delay, priority, opts.lifo)
  if kept.pdk then
    redis.call("SADD", kept.pdk, q .. id)
  end
  redis.call("DEL", key)
end
