-- meta.lua: the queue's settings. They are read once a call: a script runs alone, and the few that change them ask before or not at all.
-- q is always a queue's base: prefix, name and the last colon.
local metas = {}

-- call is redis.call without the two look-ups, for what is done for each job of many.
local call = redis.call

-- A step that fails is to have written nothing. Since nothing is taken back when a script fails, what it is going to write to is looked at
-- before its first write: a command that reads fails where the key holds something else.

-- try makes a call and answers nil if the key holds something else. Other faults are raised; they are met before the first write or not at
-- all, so the call may be made again.
local function try(...)
  local answer = redis.pcall(...)
  if type(answer) ~= "table" or not answer.err then
    return answer
  elseif not string.find(answer.err, "WRONGTYPE", 1, true) then
    return call(...)
  end
end

-- meta_of answers events (length bound of the stream), paused, concurrency, max and duration; what is not set is false.
local function meta_of(q)
  local meta = metas[q]
  if not meta then
    local f = redis.call("HMGET", q .. "meta", "opts.maxLenEvents", "paused", "concurrency", "max", "duration")
    meta = { events = f[1], paused = f[2], concurrency = tonumber(f[3] or nil), max = f[4], duration = f[5] }
    metas[q] = meta
  end
  return meta
end
