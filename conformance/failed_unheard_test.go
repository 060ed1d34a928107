package conformance

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/nettest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
)

// TestFailureThatTheQueueDoesNotHear: a failure is stored, and the worker loses Redis before it can say so there. The queue starts the job
// again, the control plane takes that for another round, as it does for a retry by hand, and in the end there is one outcome and no round
// is left unpaid or paid twice.
func TestFailureThatTheQueueDoesNotHear(t *testing.T) {
	t.Parallel()

	s := newSystem(t, posefleet(t))
	cable := nettest.Start(t, s.redis.Addr)
	settings := quickLocks(stopwatch{fail: string(protocol.CodeNoVideoStream)})
	settings["POSEFLEET_REDIS_URL"] = "redis://" + cable.Addr()

	var cut sync.Once

	s.front.intercept(nil, func(_ context.Context, m *message) bool {
		if m.is("result", "an_1") {
			cut.Do(cable.Cut)
		}

		return true
	})
	s.prepare("an_1", s.textClip(), nil)
	s.add("an_1", 3)
	w := s.startWorker("worker", settings)

	// The lock runs out; whoever looks now finds the job without one.
	client := s.redis.Client()
	wait.For(t, jobLimit, func() bool {
		return len(s.front.seen("result", "an_1")) == 1 && client.Exists(t.Context(), "bull:"+queueName+":an_1:lock").Val() == 0
	}, "the lock does not run out")

	if state, err := s.queue.State(t.Context(), "an_1"); err != nil || state != "active" {
		t.Errorf("the job is %s, %v", state, err)
	}

	cable.Heal()

	job := s.awaitJob("an_1")
	if !strings.HasPrefix(job.FailedReason, "no_video_stream: ") || job.AttemptsStarted != 2 {
		t.Errorf("%q after %d starts", job.FailedReason, job.AttemptsStarted)
	}

	var ids []string
	for _, m := range s.front.seen("result", "an_1") {
		ids = append(ids, fmt.Sprint(m.WebhookID, " ", m.Status))
	}

	if got := strings.Join(ids, ", "); got != "res_an_1_1 200, res_an_1_2 200" || s.status("an_1") != "failed" {
		t.Errorf("results %s, the analysis is %s", got, s.status("an_1"))
	}

	s.checkQuiet(w)

	if got := s.rounds(t, "an_1"); got != "0 refunded, 1 refunded" {
		t.Errorf("rounds: %s", got)
	}
}

// rounds is what became of the credit of each round of an analysis.
func (s *system) rounds(t *testing.T, id string) string {
	t.Helper()

	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.dir, "posefleet.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()

	rows, err := db.QueryContext(ctx, `SELECT round, state FROM credits WHERE analysis_id = $1 ORDER BY round`, id)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()

	var all []string

	for rows.Next() {
		var (
			round int
			state string
		)

		if err := rows.Scan(&round, &state); err != nil {
			t.Fatal(err)
		}

		all = append(all, fmt.Sprint(round, " ", state))
	}

	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}

	return strings.Join(all, ", ")
}
