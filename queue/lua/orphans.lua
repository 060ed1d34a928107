-- include: family
-- orphans.lua: deletes jobs that are in no state at all.
--
-- KEYS[1]  queue base
-- ARGV     1… ids
-- Returns  the ids that were deleted
local q, gone = KEYS[1], {}

local function placed(id)
  for _, set in ipairs({ "completed", "failed", "delayed", "prioritized", "waiting-children" }) do
    if redis.call("ZSCORE", q .. set, id) then
      return true
    end
  end
  for _, list in ipairs({ "active", "wait", "paused" }) do
    if redis.call("LPOS", q .. list, id) then
      return true
    end
  end
  return false
end

for _, id in ipairs(ARGV) do
  if not placed(id) and redis.call("EXISTS", q .. id .. ":lock") == 0 and erase(q, id, false) > 0 then
    gone[#gone + 1] = id
  end
end
return gone
