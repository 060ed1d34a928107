-- include: take
-- include: finish_alike
-- finish.lua: active jobs end as completed or failed, each with its parent, its deduplication and its keep rule served in the same step;
-- then the next jobs are taken, if the caller asks for some.
--
-- KEYS[1]  queue base
-- ARGV     1 metrics points kept, 0 = none
--          2 how many jobs to take, at most as many as have ended, by 3 now ms, 4 token, 5 lock ms, 6 worker name, 7 limiter max,
--          8 limiter duration
--          9… runs of jobs that ended in the common way: taken as they were added (see as_added in include/take.lua), completed, kept for
--          ever. Each run: "=", token, now ms, return value (JSON), how many, their ids
--          then the other jobs, each: how it ends, id, return value (JSON) or failed reason (raw text). How: "-" = completed, kept for ever;
--          else "state count age limit attempts n", state c(ompleted) or f(ailed), "-" = no such rule, and n extra values: fields of the
--          job, name, value, …
--          before the first of them, and where it changes: "@", token, now ms of those that follow
-- Returns  {answers, answer of take() or nothing}; answers: none if all have ended, else one for each job: 0 | -1 no such job | -2 no lock |
--          -3 not active | -4 pending children | -6 another's lock | -9 failed children | {"error", text}
local q, points = KEYS[1], tonumber(ARGV[1])
-- A job that was taken as it was added has just the fields of then and those that its start has written.
local started = ARGV[6] == "" and 8 or 9

-- The jobs of the runs: id, key and lock's key of each. The arguments of the others begin at rest.
local runs, ids, keys, locks, n, rest = {}, {}, {}, {}, 0, 9

local function read_runs()
  local argv = ARGV
  while argv[rest] == "=" do
    local before, count = rest + 4, tonumber(argv[rest + 4])
    if n == 0 then
      ids = { unpack(argv, before + 1, before + count) } -- a copy of a table has room for what will be in it
      keys, locks = { unpack(ids) }, { unpack(ids) }
    end
    for i = 1, count do
      local id = argv[before + i]
      local key = q .. id
      ids[n + i], keys[n + i], locks[n + i] = id, key, key .. ":lock"
    end
    runs[#runs + 1] = { first = n + 1, last = n + count, token = argv[rest + 1], now = argv[rest + 2], value = argv[rest + 3] }
    n = n + count
    rest = before + count + 1
  end
end

read_runs()
local ended, answers = 0, {}
if n > 0 and finish_alike(q, runs, ids, keys, locks, started, points) then
  ended = n
end
if ended < n or ARGV[rest] then
  -- include: finish_each
  ended, answers = finish_each(q, ended, jobs_of(q, ended < n and runs or {}, ids, rest), started, points)
end

local most = math.min(ended, tonumber(ARGV[2]))
if most > 0 then
  local ok, got = pcall(take, q, {
    now = ARGV[3], token = ARGV[4], lock_ms = ARGV[5], worker = ARGV[6], max = ARGV[7], duration = ARGV[8],
  }, most)
  if not ok then
    return { answers } -- what has ended has ended; whoever takes next meets the fault
  elseif got[1] ~= "none" or got[2] > 0 or got[4] ~= "" then
    return { answers, got }
  end
end

if ended > 0 and call("LLEN", q .. "active") == 0 and try("LLEN", q .. "wait") == 0
  and try("ZCARD", q .. "prioritized") == 0 then
  emit(q, "drained")
end
return { answers }
