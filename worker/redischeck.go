package worker

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/queue"
)

const (
	// redisCheckPause is between two looks for a Redis that does not answer yet.
	redisCheckPause = 10 * time.Second
	// redisCheckTimeout bounds one look.
	redisCheckTimeout = 5 * time.Second
	// keepsAll is the only policy under which Redis removes nothing that was not told to expire or go.
	keepsAll = "noeviction"
)

// checkRedis says once that Redis does not answer, and where it was looked for; and once, as soon as it does, that it would throw locks and jobs away when its memory is full: nothing shows that
// later but work that is done twice or never. A Redis that does not tell is taken at its word: a user with the least rights may not ask.
func checkRedis(ctx context.Context, o queue.Options, log *slog.Logger) {
	q, err := queue.NewQueue(o)
	if err != nil {
		log.Error("redis not checked", slog.String("error", err.Error()))
		return
	}
	defer func() { _ = q.Close() }() // nothing is under way
	for told := false; ; told = true {
		all, err := askServers(ctx, q)
		if err == nil {
			warnEviction(all, log)
			return
		}
		if redis.HasErrorPrefix(err, "NOPERM") {
			return
		}
		if !told && ctx.Err() == nil {
			log.Warn("Redis does not answer, the worker waits for it: is "+EnvPrefix+"REDIS_URL right?", slog.String("address", addresses(o.RedisURL)),
				slog.String("error", err.Error()))
		}
		pause := time.NewTimer(redisCheckPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

// addresses are those of the URL, without user, password and query.
func addresses(redisURL string) string {
	o, err := queue.ParseRedisURL(redisURL)
	if err != nil {
		return ""
	}
	return strings.Join(o.Addrs, ",")
}

func askServers(ctx context.Context, q *queue.Queue) ([]queue.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, redisCheckTimeout)
	defer cancel()
	return q.Servers(ctx)
}

func warnEviction(all []queue.Server, log *slog.Logger) {
	for _, s := range all {
		if s.Policy != "" && s.Policy != keepsAll {
			log.Warn("Redis may evict locks and jobs when its memory is full: set maxmemory-policy noeviction", slog.String("policy", s.Policy),
				slog.Int64("max_memory", s.MaxMemory))
			return // one is enough
		}
	}
}
