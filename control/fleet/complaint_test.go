package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// unwell is a platform that does not answer between two times, each time for a reason of its own.
type unwell struct {
	*node

	from, until time.Time
	refused     int
}

func (u *unwell) Look(ctx context.Context) (Seen, error) {
	if now := time.Now(); now.Before(u.from) || !now.Before(u.until) {
		return u.node.Look(ctx)
	}
	u.refused++

	return Seen{}, fmt.Errorf("request %d: %w", u.refused, errors.New("slow down"))
}

// A platform that is away for ten minutes is said to be so at once, then once a minute, and once that it is back; each time with another text.
func TestFaultIsSaidOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const minutes = 10
		var log bytes.Buffer // written by the reconciler alone, read when that has ended
		w := &world{rng: rand.New(rand.NewPCG(1, 2)), short: time.Now(), cfg: Config{Max: 1, Slots: 1, Interval: 5 * time.Second, Owner: "control-0"}}
		away := time.Now().Add(time.Minute)
		u := &unwell{node: &node{w: w, name: "control-0"}, from: away, until: away.Add(minutes * time.Minute)}
		r, err := New(w.cfg, u.node, u, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.Run(ctx) })
		<-time.After((minutes + 2) * time.Minute)
		end()
		running.Wait()
		said, back := strings.Count(log.String(), "fleet has to wait"), strings.Count(log.String(), "fleet goes on")
		if u.refused < 3*minutes || said < minutes/2 || said > minutes+1 || back != 1 {
			t.Errorf("said %d times after %d refusals, %d times that it is over:\n%s", said, u.refused, back, log.String())
		}
	})
}

// What comes and goes is said once a minute as well; something else that does not work is news.
func TestFaultThatComesAndGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := &Reconciler{log: slog.New(slog.NewTextHandler(&log, nil))}
		for i := range 50 {
			r.failed(t.Context(), "the demand can't be read", fmt.Errorf("port %d: %w", i, errors.New("reset")))
			r.recovered(t.Context())
		}
		r.failed(t.Context(), "the lease can't be had", errors.New("reset"))
		if said, back := strings.Count(log.String(), "fleet has to wait"), strings.Count(log.String(), "fleet goes on"); said != 2 || back != 1 {
			t.Errorf("said %d times, %d times that it is over:\n%s", said, back, log.String())
		}
	})
}
