package worker

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/posefleet/posefleet/worker/internal/ecs"
)

// workerID names this process for the control plane, the queue and the log: the id of the ECS task where there is
// one, otherwise host, process and a random part. It is never an error not to reach the metadata.
func workerID(ctx context.Context, metadataURI string, log *slog.Logger) string {
	if metadataURI != "" {
		task, err := ecs.ReadTask(ctx, metadataURI)
		if err == nil && task.ID() != "" {
			log.Info("runs as an ECS task", slog.String("task", task.ID()), slog.String("revision", task.Revision))
			if task.ClockDrift.ErrorBound > maxClockError {
				log.Warn("the task's clock may be off; signatures will be refused if it is off by minutes",
					slog.Float64("error_bound_ms", task.ClockDrift.ErrorBound))
			}
			return task.ID()
		}
		log.Warn("no ECS task metadata", slog.String("error", fmt.Sprint(err)))
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d-%s", plainName(host), os.Getpid(), strings.ToLower(rand.Text()[:6]))
}

// maxClockError is the clock error in ms above which a warning is due.
const maxClockError = 1000

// plainName keeps what is safe in a header, a Redis client name and a log.
func plainName(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.', r == '_':
			return r
		default:
			return '-'
		}
	}, s)
	return s[:min(len(s), 64)]
}
