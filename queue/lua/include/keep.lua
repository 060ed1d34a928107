-- include: family
-- keep.lua: how many finished jobs stay.

local function forget(q, ids)
  for _, id in ipairs(ids) do
    pcall(child_gone, q, q .. id, false) -- a parent that is no job is no matter of the one that has just ended
    drop_keys(q .. id)
  end
end

-- keep_newest applies the keep rules to a set of finished jobs: none older than age seconds (at most limit a call, the newest of them
-- first), then only the newest count. nil = no such rule. Removal makes no event and leaves deduplication alone.
local function keep_newest(q, set, now, age, count, limit)
  if age then
    local old = redis.call("ZREVRANGEBYSCORE", set, now - age * 1000, "-inf", "LIMIT", 0, limit or 1000)
    forget(q, old)
    for i = 1, #old, 5000 do
      redis.call("ZREM", set, unpack(old, i, math.min(i + 4999, #old)))
    end
  end
  if count and count > 0 then
    forget(q, redis.call("ZREVRANGE", set, count, -1))
    redis.call("ZREMRANGEBYRANK", set, 0, -(count + 1))
  end
end
