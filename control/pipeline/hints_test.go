package pipeline

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/store/storetest"
	"github.com/posefleet/posefleet/internal/wait"
)

// A run hears of a decision that another process made, although more runs than fit into a page were decided before it and do not end.
func TestHintsBeyondAPage(t *testing.T) {
	t.Parallel()
	b := newBench(t, t.TempDir(), func(c *Config) { c.Look = time.Hour })
	for i := range 2*sweepBatch + 5 { // nobody begins these
		n := storetest.NewAnalysis(fmt.Sprintf("an_0%04d", i))
		if _, _, err := b.CreateAnalysis(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Submit(t.Context(), store.Submission{ID: n.ID, Clips: n.Clips, Run: store.RunFollowed}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Cancel(t.Context(), n.ID); err != nil {
			t.Fatal(err)
		}
	}
	b.submit(t, store.RunFollowed)
	e := store.OutboxEntry{AnalysisID: replayID, Reason: string(store.RunFollowed)}
	if err := b.Start(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	wait.For(t, time.Minute, b.waiting.any, "the run does not wait")
	b.deliver(t)
	if r := b.ended(t); r.Outcome != store.StatusDelivered {
		t.Errorf("%+v", r)
	}
}

// endless is a store with more decided runs than anybody reads.
type endless struct {
	store.Store

	read int
}

func (s *endless) DecidedRuns(_ context.Context, after store.DecidedRun, limit int) ([]store.DecidedRun, error) {
	page := make([]store.DecidedRun, limit)
	for i := range page {
		page[i] = store.DecidedRun{RunKey: store.RunKey{AnalysisID: replayID, Round: after.Round + int64(i) + 1}}
	}
	s.read += limit

	return page, nil
}

// Of very many decided runs a call reads a bounded number, and the next one goes on behind them.
func TestHintsAreBounded(t *testing.T) {
	t.Parallel()
	s := &endless{}
	p := &Pipeline{cfg: Config{Store: s}, waiting: waiting{runs: map[store.RunKey]chan struct{}{}}}
	const most = sweepPages * sweepBatch
	last := store.RunKey{AnalysisID: replayID, Round: 2 * most}
	hint, stop := p.waiting.watch(last)
	defer stop()
	for call := range 2 {
		if len(hint) > 0 {
			t.Fatalf("a hint before call %d", call)
		}
		p.hints(t.Context())
		if s.read != (call+1)*most {
			t.Fatalf("%d runs are read in %d calls", s.read, call+1)
		}
	}
	if len(hint) != 1 {
		t.Errorf("the last run has %d hints", len(hint))
	}
}

// A run that can't be begun anew keeps nobody from those that come after it; too many of them, and the next sweep goes on behind them.
func TestSweepPastWhatFails(t *testing.T) {
	t.Parallel()
	var rows []store.Run
	for i := range 2*sweepFaults + 1 {
		rows = append(rows, store.Run{AnalysisID: fmt.Sprintf("an_%02d", i)})
	}
	for _, c := range []struct {
		name         string
		failing      int
		done, faults int
	}{
		{"none", 0, len(rows), 0},
		{"the first", 1, len(rows), 1},
		{"many", len(rows), sweepFaults, sweepFaults},
	} {
		t.Run(c.name, func(t *testing.T) {
			done := 0
			last, err := eachRow(rows, func(row store.Run) error {
				done++
				if done <= c.failing {
					return fmt.Errorf("%s: %w", row.AnalysisID, store.ErrConflict)
				}

				return nil
			})
			faults := 0
			if joined, ok := err.(interface{ Unwrap() []error }); ok {
				faults = len(joined.Unwrap())
			}
			if done != c.done || faults != c.faults || last != rows[c.done-1] {
				t.Errorf("%d done, %d faults, last %s", done, faults, last.AnalysisID)
			}
		})
	}
}
