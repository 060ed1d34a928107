-- include: meta
-- event.lua: entries of a queue's event stream.

-- max_events answers the length bound of the stream; it is written down when nobody has set one yet.
local function max_events(q)
  local meta = meta_of(q)
  if not meta.events then
    redis.call("HSET", q .. "meta", "opts.maxLenEvents", "10000")
    meta.events = "10000"
  end
  return meta.events
end

local streams = {}

-- stream_of answers the key of the event stream; it is asked for many times a call.
local function stream_of(q)
  local key = streams[q]
  if not key then
    key = q .. "events"
    streams[q] = key
  end
  return key
end

-- emit appends an event; the stream is left as long as it is.
local function emit(q, name, ...)
  redis.call("XADD", stream_of(q), "*", "event", name, ...)
end

-- emit_trimmed appends an event and lets Redis cut the stream back to about its bound.
local function emit_trimmed(q, name, ...)
  redis.call("XADD", stream_of(q), "MAXLEN", "~", max_events(q), "*", "event", name, ...)
end

-- trim_events cuts the stream back to about its bound.
local function trim_events(q)
  redis.call("XTRIM", stream_of(q), "MAXLEN", "~", max_events(q))
end
