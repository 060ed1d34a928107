package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/lmittmann/tint"
)

// textHandler writes log lines for people, in colour on a terminal.
func textHandler(w io.Writer, level slog.Level) slog.Handler {
	return tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !isTerminal(w)})
}

// redisLog takes the lines of the Redis client, which has no levels; what matters of them the queue says itself.
type redisLog struct{ log *slog.Logger }

// Printf logs one line.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "redis client", slog.String("line", fmt.Sprintf(format, args...)))
}
