-- include: place
-- add.lua: a new job that just waits in the list and has no family and no deduplication, as most do. add_any.lua does the same with all that
-- other jobs need: a Redis that was idle pays for each line of a script.
--
-- KEYS[1]  queue base
-- ARGV     1 custom id or ""   2 name   3 data (JSON)   4 opts (JSON, short names)   5 timestamp ms
-- Returns  {"added", id} | {"duplicate", id, timestamp of the job that has the id}
local q, id, name = KEYS[1], ARGV[1], ARGV[2]
local counter = call("INCR", q .. "id")
max_events(q)
if id == "" then
  id = string.format("%.0f", counter)
elseif call("EXISTS", q .. id) == 1 then
  emit_trimmed(q, "duplicated", "jobId", id)
  return { "duplicate", id, call("HGET", q .. id, "timestamp") or "" }
end
-- First what fails where a key holds something else.
push(q, id, false)
if not try("XADD", stream_of(q), "*", "event", "added", "jobId", id, "name", name) then
  call("LREM", waiting_list(q), "1", id)
  emit(q, "added", "jobId", id, "name", name)
end
call("HSET", q .. id, "name", name, "data", ARGV[3], "opts", ARGV[4], "timestamp", ARGV[5], "delay", "0", "priority", "0")
wake(q)
emit_trimmed(q, "waiting", "jobId", id)
return { "added", id }
