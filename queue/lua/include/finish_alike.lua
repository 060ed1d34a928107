-- include: event
-- include: metrics
-- finish_alike.lua: jobs that end in the common way, many at once.

-- off_active takes the ids off the active list, from its right end; false: not all of them are near it, and nothing has been done. Those
-- that were taken together mostly are its end, in the order in which they were taken.
local function off_active(q, ids)
  local key, n = q .. "active", #ids
  if n == 1 then
    return call("LREM", key, "-1", ids[1]) == 1
  end
  local tail, missing = call("LRANGE", key, -n, "-1"), 0
  for i = 1, n do
    if tail[n + 1 - i] ~= ids[i] then
      missing = n
      break
    end
  end
  if missing == 0 then
    call("LTRIM", key, "0", -n - 1)
    return true
  end

  local wanted = {}
  for i = 1, n do
    if wanted[ids[i]] then
      return false
    end
    wanted[ids[i]] = true
  end
  tail = call("LRANGE", key, -4 * n - 32, "-1")
  local at, stay = #tail + 1, {}
  while missing > 0 and at > 1 do
    at = at - 1
    if wanted[tail[at]] then
      wanted[tail[at]] = false
      missing = missing - 1
    else
      stay[#stay + 1] = tail[at]
    end
  end
  if missing > 0 then
    return false
  end
  call("LTRIM", key, "0", at - #tail - 2)
  if stay[1] then
    for i = 1, math.floor(#stay / 2) do
      stay[i], stay[#stay + 1 - i] = stay[#stay + 1 - i], stay[i]
    end
    call("RPUSH", key, unpack(stay))
  end
  return true
end

-- all_alike: the jobs of the runs are ours, have no children and are as they were when they were taken, with so many fields: then there is
-- no parent and no deduplication, and while we have the lock nothing else comes or goes. If so, they are off the active list.
local function all_alike(q, runs, ids, keys, locks, fields, points)
  local owners, children = call("MGET", unpack(locks)), { unpack(keys) }
  for _, run in ipairs(runs) do
    for i = run.first, run.last do
      if owners[i] ~= run.token then
        return false
      end
    end
  end
  for i = 1, #keys do
    children[2 * i - 1], children[2 * i] = keys[i] .. ":dependencies", keys[i] .. ":unsuccessful"
  end
  if call("EXISTS", unpack(children)) > 0 then
    return false
  end
  for i = 1, #keys do
    if call("HLEN", keys[i]) ~= fields then
      return false
    end
  end
  call("ZCARD", q .. "completed")
  if points > 0 then
    check_metrics(q, "completed")
  end
  trim_events(q)
  call("SREM", q .. "stalled", unpack(ids))
  return off_active(q, ids)
end

-- finish_alike completes the jobs of the runs, if nothing is special about any of them; false: nothing that matters has been done. A run: first, last
-- (places among ids, keys and locks), token, now, value.
local function finish_alike(q, runs, ids, keys, locks, fields, points)
  local ok, alike = pcall(all_alike, q, runs, ids, keys, locks, fields, points)
  if not (ok and alike) then
    return false
  end
  local events, kept = stream_of(q), { unpack(ids) }
  for _, run in ipairs(runs) do
    local now, value = run.now, run.value
    for i = run.first, run.last do
      call("HSET", keys[i], "atm", "1", "returnvalue", value, "finishedOn", now)
      call("XADD", events, "*", "event", "completed", "jobId", ids[i], "returnvalue", value, "prev", "active")
      kept[2 * i - 1], kept[2 * i] = now, ids[i]
      if points > 0 then
        count_minute(q, "completed", now, points)
      end
    end
  end
  call("ZADD", q .. "completed", unpack(kept))
  call("DEL", unpack(locks))
  return true
end
