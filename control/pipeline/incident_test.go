package pipeline_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control/pipeline"
	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/store/storetest"
	"github.com/posefleet/posefleet/internal/wait"
)

// The incident, a thousand times as fast: a gateway cut each request after 60 s, the work took 90 to 300 s, and whoever had asked asked
// four times more. Five executions of one analysis ran to their ends, of which some had lost their disk or their lock on the way.
const (
	gatewayCuts = 60 * time.Millisecond
	askedTimes  = 5
)

// incident is what was left of it.
type incident struct {
	status           store.Status
	executions       int
	delivered        int
	notices          int
	settled, refunds int
}

// execution works for a time and then reports a delivery or a failure.
type execution struct {
	work  time.Duration
	fails bool
}

// executions: the third is the first to be through; the second fails after that, and the last may find it done.
func executions() [askedTimes]execution {
	return [...]execution{
		{work: 300 * time.Millisecond},
		{work: 240 * time.Millisecond, fails: true},
		{work: 90 * time.Millisecond},
		{work: 200 * time.Millisecond},
		{work: 180 * time.Millisecond, fails: true},
	}
}

// replayIncident plays it on a real store with a run, over real HTTP.
func replayIncident(t *testing.T) incident {
	t.Helper()
	url := "sqlite:" + filepath.Join(t.TempDir(), "test.db")
	s, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := pipeline.Open(t.Context(), pipeline.Config{DatabaseURL: url, Store: s, Poll: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	n := storetest.NewAnalysis(analysisID)
	if _, _, err := s.CreateAnalysis(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Submit(t.Context(), store.Submission{ID: analysisID, Clips: n.Clips, Run: store.RunFollowed}); err != nil {
		t.Fatal(err)
	}
	entries, err := s.Outbox(t.Context(), 1, store.OutboxRun)
	if err != nil || len(entries) != 1 || p.Start(t.Context(), entries[0]) != nil {
		t.Fatal(entries, err)
	}
	askFiveTimes(t, s)
	p.Hint(analysisID, 0)

	return left(t, s)
}

// askFiveTimes is the caller behind the gateway. The work goes on after each cut.
func askFiveTimes(t *testing.T, s store.Store) {
	t.Helper()
	bundle := &storetest.Bundle{Store: s}
	var mu sync.Mutex
	var asked int
	var working sync.WaitGroup
	working.Add(askedTimes)
	// begin has an execution take the analysis on. The next one comes later than that, also where the gateway is quicker than the database.
	begin := func(ctx context.Context) (store.ResultPost, time.Duration, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		x := executions()[asked-1]
		g, err := s.Redeem(ctx, analysisID, storetest.QueueHolder("w1", analysisID, asked), store.JobSeen{}, time.Minute)
		if err != nil {
			return store.ResultPost{}, 0, err
		}
		if x.fails {
			return storetest.Failed(storetest.LeaseOf(g)), x.work, nil
		}

		return bundle.CompletedBy(ctx, t, storetest.LeaseOf(g)), x.work, nil
	}
	worker := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer working.Done()
		// The request ends with the gateway's patience, the work does not.
		ctx := context.WithoutCancel(r.Context())
		post, work, err := begin(ctx)
		if gone := (*store.GoneError)(nil); errors.As(err, &gone) {
			return
		}
		if err != nil {
			t.Error(err)

			return
		}
		<-time.After(work) // the work
		if _, err := s.RecordResult(ctx, post); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(http.TimeoutHandler(worker, gatewayCuts, "504"))
	defer server.Close()
	for range askedTimes {
		response, err := http.Post(server.URL, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	working.Wait()
}

// left reads what a person or a bill could notice.
func left(t *testing.T, s store.Store) incident {
	t.Helper()
	wait.For(t, patience, func() bool {
		r, err := s.Run(t.Context(), store.RunKey{AnalysisID: analysisID})

		return err == nil && !r.EndedAt.IsZero()
	}, "the run does not end")
	a, err := s.Analysis(t.Context(), analysisID)
	if err != nil {
		t.Fatal(err)
	}
	out := incident{status: a.Status}
	events, err := s.Timeline(t.Context(), analysisID)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		switch e.Kind {
		case store.EventRedeemed, store.EventTakenOver, store.EventReopened:
			out.executions++
		case store.EventDelivered:
			out.delivered++
		}
	}
	notices, err := s.Outbox(t.Context(), 100, store.OutboxNotice)
	if err != nil {
		t.Fatal(err)
	}
	out.notices = len(notices)
	account, err := s.Account(t.Context(), store.DefaultAccount)
	if err != nil {
		t.Fatal(err)
	}
	out.settled, out.refunds = int(account.Settled), int(account.Refunded)

	return out
}
