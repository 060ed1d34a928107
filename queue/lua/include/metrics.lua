-- include: meta
-- metrics.lua: the per-minute series.

-- check_metrics fails where the series is something else.
local function check_metrics(q, target)
  local key = q .. "metrics:" .. target
  call("HMGET", key, "count")
  call("LLEN", key .. ":data")
end

-- count_minute books a job in the series, of which points are kept; a gap is booked on its oldest minute.
local function count_minute(q, target, now, points)
  local key = q .. "metrics:" .. target
  local before = call("HINCRBY", key, "count", 1) - 1
  local last = call("HMGET", key, "prevTS", "prevCount")
  if not last[1] then
    call("HSET", key, "prevTS", now, "prevCount", 0)
    return
  end
  local minutes = math.min(math.floor(tonumber(now) / 60000) - math.floor(tonumber(last[1]) / 60000), points)
  if minutes <= 0 then
    return
  end
  call("LPUSH", key .. ":data", before - (tonumber(last[2]) or 0))
  for _ = 2, minutes do
    call("LPUSH", key .. ":data", 0)
  end
  call("LTRIM", key .. ":data", 0, points - 1)
  call("HSET", key, "prevCount", before, "prevTS", now)
end
