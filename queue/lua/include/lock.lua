-- include: job
-- lock.lua: ownership of an active job.

-- unlock gives the lock up if the token owns it: 0, -2 (there is no lock) or -6 (somebody else's). Token "0" is a person's hand and
-- asks no questions.
local function unlock(q, id, token)
  if token == "0" then
    return 0
  end
  local owner = try("GET", q .. id .. ":lock")
  if owner == token then
    redis.call("SREM", q .. "stalled", id)
    redis.call("DEL", q .. id .. ":lock")
    return 0
  end
  if owner then
    return -6
  end
  return -2
end

-- leave_active unlocks the job, writes the fields from ARGV[first] on and takes it off the active list: 0, -1 (no such job), -2, -6
-- or -3 (it was not active). Where it goes to is looked at by the caller, unless it is the list of those
-- that wait.
local function leave_active(q, id, token, first)
  if not try("HLEN", q .. id) or redis.call("EXISTS", q .. id) == 0 then
    return -1
  end
  redis.call("LLEN", waiting_list(q))
  redis.call("LLEN", q .. "active")
  trim_events(q)
  local fault = unlock(q, id, token)
  if fault < 0 then
    return fault
  end
  set_fields(q .. id, first)
  if redis.call("LREM", q .. "active", -1, id) == 0 then
    return -3
  end
  return 0
end
