-- include: add_job
-- addbulk.lua: many new jobs, each by itself, in order: a fault of one is its own.
--
-- KEYS[1]  queue base
-- ARGV     1 timestamp ms of the plain jobs
--          2… each job: custom id or "", name, data (JSON), opts (JSON), and "" for a plain one, which waits in the list and has no family and
--          no deduplication; else "1" and the further values of read_addition() in include/add_job.lua
-- Returns  an answer for each: the id of an added job | what add_job() answers else | {"error", text}
local q, answers, at, most = KEYS[1], {}, 2, #ARGV

local function fault(err)
  return { "error", type(err) == "table" and err.err or tostring(err) }
end

-- add_plain adds one plain job, all but its place in the list, and answers as add_job does.
local function add_plain(first, id)
  local custom = ARGV[first]
  if custom ~= "" then
    id = custom
    if redis.call("EXISTS", q .. id) == 1 then
      emit(q, "duplicated", "jobId", id)
      return { "duplicate", id, redis.call("HGET", q .. id, "timestamp") or "" }
    end
  end
  emit(q, "added", "jobId", id, "name", ARGV[first + 1])
  redis.call("HSET", q .. id, "name", ARGV[first + 1], "data", ARGV[first + 2], "opts", ARGV[first + 3], "timestamp", ARGV[1], "delay", "0",
    "priority", "0")
  emit(q, "waiting", "jobId", id)
  return id
end

-- line_up gives the jobs their places in the list, all at once.
local function line_up(ids, places)
  if not ids[1] then
    return
  end
  local ok, err = pcall(redis.call, "LPUSH", waiting_list(q), unpack(ids))
  if ok then
    wake(q)
    return
  end
  local undone = {}
  for n, i in ipairs(places) do
    redis.call("DEL", q .. ids[n])
    undone[ids[n]] = true
    answers[i] = fault(err)
  end
  -- Those that have one of these ids, too, would have been refused for its sake.
  for i, answer in pairs(answers) do
    if type(answer) == "table" and answer[1] == "duplicate" and undone[answer[2]] then
      answers[i] = fault(err)
    end
  end
end

-- add_plain_ones adds the plain jobs from ARGV[at] on, up to the first that is not plain.
local function add_plain_ones()
  local n = 0
  while ARGV[at + 5 * n + 4] == "" do
    n = n + 1
  end
  local id, ids, places = redis.call("INCRBY", q .. "id", n) - n, {}, {}
  max_events(q)
  -- Where there is no list to stand in, nothing is written.
  local there, why = pcall(redis.call, "LLEN", waiting_list(q))
  for i = 1, n do
    local ok, answer = there, why
    if there then
      ok, answer = pcall(add_plain, at, string.format("%.0f", id + i))
    end
    if not ok then
      answer = fault(answer)
    elseif type(answer) == "string" then
      ids[#ids + 1], places[#places + 1] = answer, #answers + 1
    end
    answers[#answers + 1] = answer
    at = at + 5
  end
  line_up(ids, places)
  trim_events(q)
end

local function add_other()
  local ok, answer = pcall(add_job, q, read_addition(at, at + 5))
  if not ok then
    answer = fault(answer)
  elseif type(answer) == "table" and answer[1] == "added" then
    answer = answer[2]
  end
  answers[#answers + 1] = answer
  at = at + 16
end

while at <= most do
  if ARGV[at + 4] == "" then
    add_plain_ones()
  else
    add_other()
  end
end
return answers
