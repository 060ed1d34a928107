package control

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/queue"
)

// hangingStore is a database that does not answer.
type hangingStore struct{ store.Store }

func (hangingStore) AddCensus(ctx context.Context, _ store.Census) error {
	<-ctx.Done()

	return ctx.Err()
}

func (hangingStore) ForgetCensus(ctx context.Context, _ time.Time, _ int) (int, error) {
	return 0, ctx.Err()
}

// What does not answer in time is said, and not taken for the end of the process.
func TestCensusOfWhatHangs(t *testing.T) {
	t.Parallel()
	q, err := queue.NewQueue(queue.Options{RedisURL: redistest.Start(t).URL, Prefix: "bull", Name: "pose"})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	take := func(ctx context.Context, limit time.Duration) string {
		var logs strings.Builder
		c := &census{queue: q, store: hangingStore{}, now: time.Now, changed: func() {}, log: slog.New(slog.NewTextHandler(&logs, nil))}
		c.take(ctx, limit)

		return logs.String()
	}
	if got := take(t.Context(), 2*time.Second); !strings.Contains(got, "census can't be kept") {
		t.Errorf("the database hangs, and the log says: %s", got)
	}
	if got := take(t.Context(), 0); !strings.Contains(got, "queue can't be read") || !strings.Contains(got, "POSEFLEET_REDIS_URL") {
		t.Errorf("the queue is too slow, and the log says: %s", got)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if got := take(ended, time.Second); got != "" {
		t.Errorf("at the end of the process the log says: %s", got)
	}
}
