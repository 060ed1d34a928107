package queue

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

// diffDump reads a whole database in one call: {key, type, has a ttl, value, …}.
var diffDump = redis.NewScript(`
local all = {}
local names = redis.call("KEYS", "*")
table.sort(names)
for _, key in ipairs(names) do
  local kind = redis.call("TYPE", key).ok
  local value
  if kind == "string" then value = { redis.call("GET", key) }
  elseif kind == "hash" then value = redis.call("HGETALL", key)
  elseif kind == "list" then value = redis.call("LRANGE", key, 0, -1)
  elseif kind == "set" then value = redis.call("SMEMBERS", key); table.sort(value)
  elseif kind == "zset" then value = redis.call("ZRANGE", key, 0, -1, "WITHSCORES")
  else
    value = {}
    for _, entry in ipairs(redis.call("XRANGE", key, "-", "+")) do
      value[#value + 1] = table.concat(entry[2], " ")
    end
  end
  all[#all + 1] = { key, kind, redis.call("PTTL", key) > 0 and "ttl" or "", value }
end
return all`)

// snapshot is a database in a form that can be compared: key and kind to its normalised content.
func (r *diffRun) snapshot(rt *rapid.T, db int) map[string]any {
	raw, err := diffDump.Run(r.t.Context(), r.dbs[db], nil).Slice()
	if err != nil {
		rt.Fatal(err)
	}

	all := make(map[string]any, len(raw))

	for _, entry := range raw {
		parts := entry.([]any)
		kind := parts[1].(string)
		name := fmt.Sprintf("%s %s %s", parts[0], kind, parts[2])

		switch values := texts(parts[3]); kind {
		case "hash":
			all[name] = normalHash(values)
		case "stream":
			all[name] = normalEvents(values)
		case "zset":
			all[name] = normalScores(values)
		default:
			all[name] = values
		}
	}

	return all
}

// normalHash parses the JSON that each library writes in its own order, and counts stacks, whose texts are a language's own.
func normalHash(flat []string) map[string]any {
	h := make(map[string]any, len(flat)/2)

	for i := 0; i+1 < len(flat); i += 2 {
		switch field, text := flat[i], flat[i+1]; field {
		case "version": // each library's own
		case "stacktrace":
			var stack []string

			_ = json.Unmarshal([]byte(text), &stack) // nil if it is no list, which differs
			h[field] = len(stack)
		case "opts", "parent":
			var parsed map[string]any

			_ = json.Unmarshal([]byte(text), &parsed) // nil if it is no object, which differs
			// Zero and absent are the same to every reader; Node writes what its caller gave.
			for name, zero := range map[string]any{"delay": 0.0, "priority": 0.0, "lifo": false, "jobId": ""} {
				if parsed[name] == zero {
					delete(parsed, name)
				}
			}

			h[field] = parsed
		default:
			h[field] = text
		}
	}

	return h
}

// normalEvents leaves out what only major 5 writes beside each deduplicated event.
func normalEvents(lines []string) []string {
	kept := make([]string, 0, len(lines))

	for _, line := range lines {
		if !strings.HasPrefix(line, "event debounced ") {
			kept = append(kept, line)
		}
	}

	return kept
}

// normalScores writes scores without an exponent.
func normalScores(flat []string) []string {
	for i := 1; i < len(flat); i += 2 {
		if f, err := strconv.ParseFloat(flat[i], 64); err == nil {
			flat[i] = strconv.FormatFloat(f, 'f', -1, 64)
		}
	}

	return flat
}
