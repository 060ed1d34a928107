package pipeline

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posefleet/posefleet/control/store"
)

// openStore knows one run, which has not been decided.
type openStore struct {
	store.Store

	row store.Run
}

func (s openStore) Run(context.Context, store.RunKey) (store.Run, error) { return s.row, nil }

// A run that was taken up after it had waited for long elsewhere finds out soon whether its analysis is still somewhere, and not in the same moment
// as all others; after that, and where it is new, it does so once in a while.
func TestTakenUpRunLooksSoon(t *testing.T) {
	t.Parallel()
	const runs = 50
	synctest.Test(t, func(t *testing.T) {
		soon := map[time.Duration]bool{}
		for _, age := range []time.Duration{time.Second, defaultLook, 3 * time.Hour} {
			for range runs {
				now := time.Now()
				p := &Pipeline{waiting: waiting{runs: map[store.RunKey]chan struct{}{}}, cfg: Config{
					Now: time.Now, Look: defaultLook, Limit: defaultLimit, OnWrite: func(string) {},
					Store: openStore{row: store.Run{
						AnalysisID: "an_1", Reason: store.RunSubmitted, Stage: store.StageDispatched, Way: store.WayQueue, CreatedAt: now.Add(-age), UpdatedAt: now.Add(-age),
					}},
					Alive: func(context.Context, store.Run) (bool, error) { return true, nil },
				}}
				r := &run{Pipeline: p, in: input{AnalysisID: "an_1"}}
				for look := range 3 {
					began := time.Now()
					if got, err := r.look(t.Context()); err != nil || got.Lost {
						t.Fatalf("%+v, %v", got, err)
					}
					waited := time.Since(began)
					if look > 0 || age < defaultLook {
						if waited != defaultLook {
							t.Fatalf("look %d of a run of %s after %s", look, age, waited)
						}

						continue
					}
					if waited > defaultLook/lookSoon {
						t.Fatalf("a run that was taken up looks after %s", waited)
					}
					soon[waited] = true
				}
			}
		}
		if len(soon) < runs {
			t.Errorf("%d runs look at %d moments", 2*runs, len(soon))
		}
	})
}

// However long a look may wait, the round ends at its limit.
func TestPatienceEndsAtTheLimit(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := &Pipeline{cfg: Config{Now: func() time.Time { return now }, Look: defaultLook, Limit: time.Hour}}
	for _, tt := range []struct{ age, most time.Duration }{{59 * time.Minute, time.Minute}, {time.Hour, 0}, {48 * time.Hour, 0}} {
		r := &run{Pipeline: p, looked: true}
		if got := r.patience(store.Run{CreatedAt: now.Add(-tt.age), UpdatedAt: now}); got > tt.most+time.Millisecond {
			t.Errorf("a round of %s waits %s", tt.age, got)
		}
	}
}
