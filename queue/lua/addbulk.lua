-- include: add_job
-- addbulk.lua: many new jobs, each by itself, in order: a fault of one is its own.
--
-- KEYS[1]  queue base
-- ARGV     1 timestamp ms of the plain jobs
--          2… each job: custom id or "", name, data (JSON), opts (JSON), and "" for a plain one, which waits in the list and has no family and
--          no deduplication; else "1" and the further values of read_addition() in include/add_job.lua
-- Returns  an answer for each: the id of an added job | what add_job() answers else | {"error", text}
local q, answers, at = KEYS[1], {}, 2

while at <= #ARGV do
  local j
  if ARGV[at + 4] == "" then
    j = {
      custom = ARGV[at], name = ARGV[at + 1], data = ARGV[at + 2], opts = ARGV[at + 3], timestamp = ARGV[1], delay = "0", priority = "0",
      parent_key = "", dedup = "",
    }
    at = at + 5
  else
    j = read_addition(at, at + 5)
    at = at + 16
  end
  local ok, answer = pcall(add_job, q, j)
  if not ok then
    answer = { "error", type(answer) == "table" and answer.err or tostring(answer) }
  elseif type(answer) == "table" and answer[1] == "added" then
    answer = answer[2]
  end
  answers[#answers + 1] = answer
end
return answers
