package pipeline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posefleet/posefleet/control/store"
)

// awayStore is a database that is away.
type awayStore struct{ store.Store }

func (awayStore) DecidedRuns(context.Context, store.DecidedRun, int) ([]store.DecidedRun, error) {
	return nil, errors.New("connection refused")
}

// What is looked for every few seconds in a database that is away fails each time, and is said once a minute.
func TestLooksThatFailAreSaidOnceAMinute(t *testing.T) {
	t.Parallel()
	const minutes = 10
	for _, c := range []struct {
		name, says string
		look       func(*Pipeline, context.Context)
	}{
		{"decided runs", "decided runs can't be read", (*Pipeline).hints},
		{"runs of others", "runs of other processes can't be looked at", (*Pipeline).adopt},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				pool, err := pgxpool.New(t.Context(), "host="+t.TempDir()+" user=nobody")
				if err != nil {
					t.Fatal(err)
				}
				defer pool.Close()
				log := &lines{}
				p := &Pipeline{
					cfg: Config{Store: awayStore{}}, log: log.logger(), waiting: waiting{runs: map[store.RunKey]chan struct{}{}},
					engine: &engine{pool: pool, seat: &seat{}, freeSince: map[int]time.Time{}},
				}
				_, done := p.waiting.watch(store.RunKey{AnalysisID: "an_1"})
				defer done()
				for range minutes * 30 {
					c.look(p, t.Context())
					<-time.After(2 * time.Second)
				}
				if said := log.with(c.says); len(said) != minutes {
					t.Errorf("said %d times in %d minutes: %v", len(said), minutes, said)
				}
			})
		})
	}
}
