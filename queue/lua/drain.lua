-- include: family
-- include: schedules
-- drain.lua: empties the queue of jobs that have not begun. Pending iterations of schedulers stay.
--
-- KEYS[1]  queue base
-- ARGV     1 "1" = the delayed ones too
-- Returns  how many jobs went
local q, protected, count = KEYS[1], pending_iterations(KEYS[1]), 0

local function drain(ids, drop, reinsert)
  local stay = {}
  for _, id in ipairs(ids) do
    if protected[id] then
      stay[#stay + 1] = id
    end
  end
  drop()
  for _, id in ipairs(stay) do
    reinsert(id)
  end
  for _, id in ipairs(ids) do
    if not protected[id] then
      count = count + 1
      erase(q, id, true)
    end
  end
end

local function drain_list(key)
  drain(redis.call("LRANGE", key, 0, -1), function()
    redis.call("DEL", key)
  end, function(id)
    redis.call("RPUSH", key, id)
  end)
end

local function drain_set(key)
  local scores, ids = {}, {}
  local flat = redis.call("ZRANGE", key, 0, -1, "WITHSCORES")
  for i = 1, #flat, 2 do
    ids[#ids + 1] = flat[i]
    scores[flat[i]] = flat[i + 1]
  end
  drain(ids, function()
    redis.call("DEL", key)
  end, function(id)
    redis.call("ZADD", key, scores[id], id)
  end)
end

drain_list(q .. "wait")
drain_list(q .. "paused")
if ARGV[1] == "1" then
  drain_set(q .. "delayed")
end
drain_set(q .. "prioritized")
return count
