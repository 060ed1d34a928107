-- include: meta
-- wake.lua: the marker set, on which idle workers block.
--   member "0", score 0     there may be a job to take now
--   member "1", score ms    the earliest delayed job is due then

-- held_back: the queue is paused or its global concurrency is used up, so that nobody could take a job.
local function held_back(q)
  local meta = meta_of(q)
  if meta.paused then
    return true
  end
  return meta.concurrency ~= nil and redis.call("LLEN", q .. "active") >= meta.concurrency
end

local awake = {}

-- set_marker lets one blocked worker look for a job; once a call is enough. It comes last: where the marker is something else, which blocked
-- workers tell of, all else is done nevertheless.
local function set_marker(q)
  if not awake[q] then
    try("ZADD", q .. "marker", "0", "0")
    awake[q] = true
  end
end

-- wake lets one blocked worker look for a job, if there is one that may be taken.
local function wake(q)
  if not awake[q] and not held_back(q) then
    set_marker(q)
  end
end

-- wake_at_due keeps the delay marker at the time of the first delayed job.
local function wake_at_due(q)
  local first = redis.call("ZRANGE", q .. "delayed", 0, 0, "WITHSCORES")
  if first[2] then
    try("ZADD", q .. "marker", tonumber(first[2]) / 4096, "1")
  end
end
