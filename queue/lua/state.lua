-- state.lua: where a job is.
--
-- KEYS[1]  queue base
-- ARGV     1 id
-- Returns  completed | failed | delayed | prioritized | active | waiting | waiting-children | unknown
local q, id = KEYS[1], ARGV[1]

for _, set in ipairs({ "completed", "failed", "delayed", "prioritized" }) do
  if redis.call("ZSCORE", q .. set, id) then
    return set
  end
end
if redis.call("LPOS", q .. "active", id) then
  return "active"
end
if redis.call("LPOS", q .. "wait", id) or redis.call("LPOS", q .. "paused", id) then
  return "waiting"
end
if redis.call("ZSCORE", q .. "waiting-children", id) then
  return "waiting-children"
end
return "unknown"
