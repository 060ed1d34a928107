package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/queue"
)

const (
	// memoryWarn is the share of maxmemory from which on it is worth a word.
	memoryWarn = 0.9
	// probeJob is an id that no job has.
	probeJob = "posefleet-doctor"
)

// redisArea examines Redis and the queue in it.
type redisArea struct {
	options queue.Options
	queue   *queue.Queue
}

// examineRedis answers the findings about Redis itself, then those about the queue. Without a connection there is only one.
func examineRedis(ctx context.Context, o queue.Options) []Finding {
	q, err := queue.NewQueue(o)
	if err != nil {
		return []Finding{failure("redis", "correct POSEFLEET_REDIS_URL, POSEFLEET_PREFIX and POSEFLEET_QUEUE", "%s", err)}
	}
	defer q.Close()

	r := &redisArea{options: o, queue: q}

	servers, err := q.Servers(ctx)
	if err != nil {
		return []Finding{r.unreachable(err)}
	}

	found := []Finding{r.server(servers), eviction(servers), memory(servers), r.clock(servers)}

	if f, ok := r.rights(ctx); !ok {
		return append(found, f)
	}

	return append(found, r.examineQueue(ctx)...)
}

// Unreachable tells what keeps a command from using the Redis of o, and names the address that was tried and the variable to set; false if
// err is no fault of the connection. No user, password or query of the address is in it.
func Unreachable(o queue.Options, err error) (Finding, bool) {
	_, dialled := errors.AsType[*net.OpError](err)
	_, named := errors.AsType[*net.DNSError](err)
	refused := slices.ContainsFunc([]string{"WRONGPASS", "NOAUTH", "LOADING"}, func(code string) bool { return redis.HasErrorPrefix(err, code) })

	if !dialled && !named && !refused && !errors.Is(err, io.EOF) && !errors.Is(err, context.DeadlineExceeded) {
		return Finding{}, false
	}

	return (&redisArea{options: o}).unreachable(err), true
}

// addresses are those of the URL, without user, password and query.
func (r *redisArea) addresses() string {
	o, err := queue.ParseRedisURL(r.options.RedisURL)
	if err != nil {
		return "its address"
	}

	return strings.Join(o.Addrs, ",")
}

func (r *redisArea) unreachable(err error) Finding {
	at := r.addresses()

	switch {
	case redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "NOAUTH"):
		return failure("redis", "correct user and password in POSEFLEET_REDIS_URL (percent-encoded)", "Redis at %s refuses user or password", at)
	case redis.HasErrorPrefix(err, "LOADING"):
		return failure("redis", "wait until it has loaded its data", "Redis at %s has just started and is loading", at)
	case redis.HasErrorPrefix(err, "NOPERM"):
		return failure("redis", "give the user the rights that the documentation of package queue lists", "Redis at %s does not even let us PING", at)
	}

	return failure("redis", "start Redis, or set POSEFLEET_REDIS_URL to its address, or let the network through (security group, TLS: rediss://)",
		"Redis at %s can't be used: %s", at, reason(err))
}

func (r *redisArea) server(servers []queue.Server) Finding {
	const name = "redis"

	first := servers[0]
	o, err := queue.ParseRedisURL(r.options.RedisURL)

	switch {
	case slices.ContainsFunc(servers, func(s queue.Server) bool { return s.ReadOnly }):
		return failure(name, "give the address of the primary, or of the sentinels (redis+sentinel://)", "Redis at %s is a replica and refuses writes", r.addresses())
	case err == nil && first.Mode == "cluster" && !o.IsClusterMode:
		return failure(name, "give several nodes, comma-separated, in POSEFLEET_REDIS_URL and a hash tag as POSEFLEET_PREFIX={bull}",
			"Redis at %s is part of a Cluster, but the URL names a single server", r.addresses())
	case first.Version == "":
		return warning(name, "allow INFO (+info), or make sure that it is 6.2 or later", "Redis at %s answers but does not tell its version", r.addresses())
	case first.Product != "dragonfly" && !atLeast(first.Version, 6, 2):
		return failure(name, "upgrade Redis", "Redis at %s is %s, older than 6.2", r.addresses(), first.Version)
	}

	return good(name, "%s %s (%s) at %s answers in %s", first.Product, first.Version, first.Mode, r.addresses(), span(first.RoundTrip))
}

// atLeast compares the first two numbers of a version.
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version+".0.0", ".", 3)
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])

	return errA == nil && errB == nil && (a > major || a == major && b >= minor)
}

func eviction(servers []queue.Server) Finding {
	const name = "eviction"

	for _, s := range servers {
		switch s.Policy {
		case "noeviction":
		case "":
			return warning(name, "make sure by other means that maxmemory-policy is noeviction",
				"not known: Redis refuses %s", strings.Join(s.Denied, " and "))
		default:
			return failure(name, "set maxmemory-policy noeviction (redis.conf, CONFIG SET or the parameter group)",
				"maxmemory-policy is %s: when memory is full, locks and jobs vanish, and analyses run twice or never", s.Policy)
		}
	}

	return good(name, "maxmemory-policy is noeviction")
}

func memory(servers []queue.Server) Finding {
	const name = "redis memory"

	worst := slices.MaxFunc(servers, func(a, b queue.Server) int {
		return int(1000*share(a)) - int(1000*share(b))
	})
	used := fmt.Sprintf("%s of %s used", bytesText(worst.UsedMemory), bytesText(worst.MaxMemory))
	mend := "raise maxmemory, or remove finished jobs: posefleet queue clean completed --older-than=24h"

	switch part := share(worst); {
	case worst.MaxMemory == 0 && worst.UsedMemory == 0:
		return good(name, "not told")
	case worst.MaxMemory == 0:
		return good(name, "%s used, no limit", bytesText(worst.UsedMemory))
	case part >= 1:
		return failure(name, mend, "%s: no job can be added or finished", used)
	case part >= memoryWarn:
		return warning(name, mend, "%s: when it is full, no job can be added or finished", used)
	}

	return good(name, "%s", used)
}

func share(s queue.Server) float64 {
	if s.MaxMemory == 0 {
		return 0
	}

	return float64(s.UsedMemory) / float64(s.MaxMemory)
}

func (*redisArea) clock(servers []queue.Server) Finding {
	worst := slices.MaxFunc(servers, func(a, b queue.Server) int {
		return int((a.ClockAhead.Abs() - b.ClockAhead.Abs()) / time.Millisecond)
	})

	if worst.ClockError == 0 {
		return warning("redis clock", "allow TIME (+time) if clocks are in doubt", "not compared: Redis refuses TIME")
	}

	return clock("redis clock", "Redis'", worst.ClockAhead, worst.ClockError)
}

// rights reports whether our scripts run at all, by one that only reads.
func (r *redisArea) rights(ctx context.Context) (Finding, bool) {
	_, err := r.queue.State(ctx, probeJob)
	// The code stands alone, or in what a script says of a command.
	if err == nil || strings.Contains(err.Error(), "WRONGTYPE") { // see examineQueue
		return Finding{}, true
	}

	if strings.Contains(err.Error(), "NOPERM") {
		return failure("redis rights", "give the user the rights that the documentation of package queue lists, on the keys "+r.options.Prefix+":*",
			"the user may not run the queue's scripts"), false
	}

	return failure("redis rights", "see whether this Redis allows Lua scripts", "the queue's scripts do not run: %s", reason(err)), false
}
