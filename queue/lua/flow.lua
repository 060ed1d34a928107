-- include: add_job
-- flow.lua: trees of jobs, all of them or none. Whether a node would be refused is asked of all nodes before the first is written.
--
-- KEYS[1]  base of one of the queues (on a cluster all of them are in one slot)
-- ARGV     1 "1" = an earlier call of the same flow may have been done although its answer was lost
--          2 now ms
--          3… 16 values a node, parents before their children: base of its queue, then as in read_addition()
-- Returns  {"added", {answer of add_job() for each node}} | {"there"} the lost call was done | {"refused", place of the node, -5 or -7}
local now, nodes = tonumber(ARGV[2]), {}

for at = 3, #ARGV, 16 do
  local j = read_addition(at + 1)
  j.q = ARGV[at]
  nodes[#nodes + 1] = j
end

-- All nodes came into being in one step, so the first of them speaks for all.
local first = nodes[1]
if ARGV[1] == "1" and first.custom ~= "" and redis.call("HGET", first.q .. first.custom, "timestamp") == first.timestamp then
  return { "there" }
end

-- refusal answers why the node can't be added; parents tells the parents of the nodes before it.
local function refusal(j, parents)
  if j.parent_key ~= "" and parents[j.parent_key] == nil and redis.call("EXISTS", j.parent_key) == 0 then
    return -5
  end
  if j.custom == "" then
    return nil
  end
  local job = j.q .. j.custom
  local before = parents[job]
  if j.parent_key ~= "" and (before and before ~= "" and before ~= j.parent_key or taken_by(job, j.parent_key)) then
    return -7
  end
  parents[job] = j.parent_key ~= "" and j.parent_key or before or ""
  return nil
end

local parents = {}
for i, j in ipairs(nodes) do
  look_at(j.q, j)
  local code = refusal(j, parents)
  if code then
    return { "refused", i, code }
  end
end

local answers = {}
for i, j in ipairs(nodes) do
  answers[i] = add_job(j.q, j, true)
end

-- Parents whose children all were completed already have nothing to wait for.
for _, j in ipairs(nodes) do
  local job = j.q .. j.id
  if j.waits and redis.call("SCARD", job .. ":dependencies") == 0 then
    release({ key = job, q = j.q, id = j.id }, now)
  end
end
return { "added", answers }
