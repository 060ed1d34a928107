package queue

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// RouteDriverLog sends the messages of the Redis driver, which otherwise go to standard error as plain text at each failed dial, to log
// at level debug; this package tells of a lost Redis itself, once. The driver has one logger per process, so this is for a main
// program to call, before any queue is made.
func RouteDriverLog(log *slog.Logger) { redis.SetLogger(driverLog{log: log}) }

type driverLog struct{ log *slog.Logger }

// Printf implements the driver's logger.
func (d driverLog) Printf(ctx context.Context, format string, args ...any) {
	d.log.DebugContext(ctx, "redis driver", slog.String("message", fmt.Sprintf(format, args...)))
}
