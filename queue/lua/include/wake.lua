-- wake.lua: the marker set, on which idle workers block.
--   member "0", score 0     there may be a job to take now
--   member "1", score ms    the earliest delayed job is due then

-- held_back: the queue is paused or its global concurrency is used up, so that nobody could take a job.
local function held_back(q)
  local meta = redis.call("HMGET", q .. "meta", "paused", "concurrency")
  if meta[1] then
    return true
  end
  local most = tonumber(meta[2])
  return most ~= nil and redis.call("LLEN", q .. "active") >= most
end

-- wake lets one blocked worker look for a job.
local function wake(q)
  if not held_back(q) then
    redis.call("ZADD", q .. "marker", 0, "0")
  end
end

-- wake_at_due keeps the delay marker at the time of the first delayed job.
local function wake_at_due(q)
  local first = redis.call("ZRANGE", q .. "delayed", 0, 0, "WITHSCORES")
  if first[2] then
    redis.call("ZADD", q .. "marker", tonumber(first[2]) / 4096, "1")
  end
end
