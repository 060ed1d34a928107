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
// again, and the start is told that the analysis is over: one result, one round, paid back once.
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

	s.checkFailedOnce(t, 2)
	s.checkQuiet(w)

	// A person who retries the job all the same gets a round.
	if err := s.queue.Retry(t.Context(), "an_1"); err != nil {
		t.Fatal(err)
	}

	wait.For(t, jobLimit, func() bool { return s.rounds(t, "an_1") == "0 refunded, 1 refunded" }, "the retry is no round")
}

// TestKilledAfterFailure kills -9 the worker when its failure is stored, before it has the answer.
func TestKilledAfterFailure(t *testing.T) {
	t.Parallel()

	s := newSystem(t, posefleet(t))
	settings := quickLocks(stopwatch{fail: string(protocol.CodeNoVideoStream)})
	reached := s.cutAt("an_1", "result", true)

	s.prepare("an_1", s.textClip(), nil)
	s.add("an_1", 3)

	killed := s.startWorker("killed", settings)
	awaitClosed(t, reached, "the failure")
	killed.Kill()
	s.front.intercept(nil, nil)

	other := s.startWorker("other", settings)

	s.checkFailedOnce(t, 2)
	s.restart(killed)
	s.checkQuiet(killed, other)
}

// checkFailedOnce waits for the end of the job and checks that the one failure is the outcome.
func (s *system) checkFailedOnce(t *testing.T, starts int) {
	t.Helper()

	job := s.awaitJob("an_1")
	if string(job.ReturnValue) != `{"outcome":"alreadyDelivered"}` || job.AttemptsStarted != starts {
		t.Errorf("%s %q after %d starts", job.ReturnValue, job.FailedReason, job.AttemptsStarted)
	}

	var ids []string
	for _, m := range s.front.seen("result", "an_1") {
		ids = append(ids, m.WebhookID)
	}

	if got := strings.Join(ids, ", "); got != "res_an_1_1" || s.status("an_1") != "failed" {
		t.Errorf("results %s, the analysis is %s", got, s.status("an_1"))
	}

	if got := s.rounds(t, "an_1"); got != "0 refunded" {
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
