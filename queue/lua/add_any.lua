-- include: add_job
-- add_any.lua: a new job of any kind.
--
-- KEYS[1]  queue base (prefix, name, last colon); every other key is made from it or from parentKey
-- ARGV     1… the job, see read_addition() in include/add_job.lua
-- Returns  see add_job() there
return add_job(KEYS[1], read_addition(1))
