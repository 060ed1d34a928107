package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/store/storetest"
	"github.com/posefleet/posefleet/internal/pgtest"
	"github.com/posefleet/posefleet/internal/wait"
)

// courierPatience is for what takes milliseconds on an idle machine.
const courierPatience = time.Minute

// trip is a courier on a database of its own, with a receiver that the test plays.
type trip struct {
	*storetest.Bundle
	// hold keeps the entries of an analysis in flight until it is closed; refuse has them fail.
	mu       sync.Mutex
	hold     map[string]chan struct{}
	refuse   map[string]error
	inFlight int
	most     int
	carried  []string
}

func newTrip(t *testing.T) *trip {
	t.Helper()

	return &trip{
		Bundle: storetest.NewBundle(t, func(t *testing.T, _ func() time.Time) store.Store {
			t.Helper()

			return openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db"))
		}),
		hold: map[string]chan struct{}{}, refuse: map[string]error{},
	}
}

func openStore(t *testing.T, url string) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})

	return s
}

// carry is the receiver.
func (x *trip) carry(ctx context.Context, e store.OutboxEntry) error {
	x.mu.Lock()
	x.inFlight++
	x.most = max(x.most, x.inFlight)
	held, refused := x.hold[e.AnalysisID], x.refuse[e.AnalysisID]
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.inFlight--
	}()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if refused != nil {
		return refused
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.carried = append(x.carried, e.AnalysisID)

	return nil
}

// start lets a courier of dispatches run until stop is called.
func (x *trip) start(t *testing.T, slots int) (c *courier, stop func()) {
	t.Helper()

	return startCourier(t, x.Store, slots, x.carry)
}

func startCourier(t *testing.T, s store.Store, slots int, carry carry) (*courier, func()) {
	t.Helper()
	c := &courier{
		store: s, kind: store.OutboxDispatch, carry: carry, slots: slots, pauseMost: retryFirst,
		log: slog.New(slog.DiscardHandler), point: func(string) {}, owner: t.Name() + fmt.Sprintf("%p", &carry), wake: make(chan struct{}, 1),
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		c.run(ctx)
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(stop)

	return c, stop
}

// had is what was carried out so far, in order.
func (x *trip) had() []string {
	x.mu.Lock()
	defer x.mu.Unlock()

	return slices.Clone(x.carried)
}

func (x *trip) want(t *testing.T, n int) {
	t.Helper()
	wait.For(t, courierPatience, func() bool { return len(x.had()) >= n }, "%d of %d were carried out", len(x.had()), n)
}

// A receiver that hangs with some entries does not keep the others from going, not even those that come later; there are never more in flight
// than slots.
func TestCourierHangingReceiver(t *testing.T) {
	t.Parallel()
	x := newTrip(t)
	release := make(chan struct{})
	for i := range 3 {
		id := fmt.Sprintf("an_slow%d", i)
		x.hold[id] = release
		x.Dispatched(t, id)
	}
	for i := range 30 {
		x.Dispatched(t, fmt.Sprintf("an_%d", i))
	}
	c, _ := x.start(t, 4)
	x.want(t, 30)
	for i := range 10 {
		x.Dispatched(t, fmt.Sprintf("an_later%d", i))
	}
	c.wake <- struct{}{}
	x.want(t, 40)
	if slices.ContainsFunc(x.had(), func(id string) bool { return strings.HasPrefix(id, "an_slow") }) {
		t.Error("a hanging one was carried out")
	}
	close(release)
	x.want(t, 43)
	if x.most > 4 {
		t.Errorf("%d in flight, there are 4 slots", x.most)
	}
}

// Entries that were tried before and hang each time have half of the slots at most.
func TestCourierEntriesThatHangAgain(t *testing.T) {
	t.Parallel()
	x := newTrip(t)
	release := make(chan struct{})
	defer close(release)
	for i := range 8 {
		id := fmt.Sprintf("an_slow%d", i)
		x.Dispatched(t, id)
		x.hold[id] = release
	}
	all, err := x.Outbox(t.Context(), 10)
	for _, e := range all {
		err = errors.Join(err, x.OutboxFailed(t.Context(), e, 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	c, _ := x.start(t, 4)
	wait.For(t, courierPatience, func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()

		return x.inFlight == 2
	}, "the old ones are not tried")
	for i := range 20 {
		x.Dispatched(t, fmt.Sprintf("an_%d", i))
	}
	c.wake <- struct{}{}
	x.want(t, 20)
}

// Of one analysis the next entry waits for the one before, also where that fails at first.
func TestCourierKeepsTheOrder(t *testing.T) {
	t.Parallel()
	x := newTrip(t)
	x.Queued(t, "an_1")
	for i := range 3 {
		l := storetest.LeaseOf(x.MustRedeem(t, "an_1", storetest.HTTPHolder(fmt.Sprint("w", i), "an_1")))
		x.MustRecord(t, storetest.Interrupted(l), store.DecisionAccepted)
	}
	var mu sync.Mutex
	var order []int64
	tries := 0
	startCourier(t, x.Store, 4, func(_ context.Context, e store.OutboxEntry) error {
		mu.Lock()
		defer mu.Unlock()
		if tries++; tries < 3 {
			return errors.New("not now")
		}
		order = append(order, e.ID)

		return nil
	})
	wait.For(t, courierPatience, func() bool {
		mu.Lock()
		defer mu.Unlock()

		return len(order) == 3
	}, "not all were carried out")
	if !slices.IsSorted(order) {
		t.Errorf("carried out in the order %v", order)
	}
}

// A receiver that wants nothing at all is asked for one entry at a time, and gets everything as soon as it takes one.
func TestCourierClosedReceiver(t *testing.T) {
	t.Parallel()
	x := newTrip(t)
	var mu sync.Mutex
	open, asked := false, 0
	for i := range 30 {
		x.Dispatched(t, fmt.Sprintf("an_%d", i))
	}
	startCourier(t, x.Store, 4, func(ctx context.Context, e store.OutboxEntry) error {
		mu.Lock()
		asked++
		is := open
		mu.Unlock()
		if !is {
			return &laterError{after: time.Millisecond, why: "full"}
		}

		return x.carry(ctx, e)
	})
	wait.For(t, courierPatience, func() bool {
		mu.Lock()
		defer mu.Unlock()

		return asked > 5
	}, "it is not asked again")
	mu.Lock()
	open = true
	mu.Unlock()
	x.want(t, 30)
}

// The end of a courier ends what is in flight and gives it back: the next one need not wait.
func TestCourierEnds(t *testing.T) {
	t.Parallel()
	x := newTrip(t)
	x.hold["an_1"] = make(chan struct{})
	x.Dispatched(t, "an_1")
	_, stop := x.start(t, 4)
	wait.For(t, courierPatience, func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()

		return x.inFlight == 1
	}, "it is not tried")
	stop()
	all, err := x.ClaimOutbox(t.Context(), store.OutboxClaim{Owner: "next", Kinds: []store.OutboxKind{store.OutboxDispatch}, Limit: 1, Lease: time.Minute})
	if err != nil || len(all) != 1 || all[0].Tries != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// Two control planes on one Postgres: each entry is carried out once, however long the receiver takes, and what a dead one had is taken over.
func TestCouriersOfTwoControlPlanes(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	t.Run("couriers", func(t *testing.T) { // ends before the server
		url := server.Database()
		b := storetest.NewBundle(t, func(t *testing.T, _ func() time.Time) store.Store {
			t.Helper()

			return openStore(t, url)
		})
		const entries = 40
		for i := range entries {
			b.Dispatched(t, fmt.Sprintf("an_%d", i))
		}
		b.Dispatched(t, "an_dead")
		dead, err := b.ClaimOutbox(t.Context(), store.OutboxClaim{Owner: "dead", Kinds: []store.OutboxKind{store.OutboxDispatch}, Limit: 3, Lease: time.Second})
		if err != nil || len(dead) != 3 {
			t.Fatalf("%+v, %v", dead, err)
		}
		var mu sync.Mutex
		had := map[string]int{}
		slow := make(chan struct{})
		for range 2 {
			startCourier(t, openStore(t, url), 8, func(ctx context.Context, e store.OutboxEntry) error {
				mu.Lock()
				had[e.AnalysisID]++
				mu.Unlock()
				if e.AnalysisID != "an_7" {
					return nil
				}
				select { // longer than a claim lasts
				case <-slow:
				case <-ctx.Done():
				}

				return ctx.Err()
			})
		}
		begun, looked, longest := time.Now(), time.Now(), time.Duration(0)
		wait.For(t, courierPatience, func() bool {
			_, err := b.Outbox(t.Context(), 1)
			longest, looked = max(longest, time.Since(looked)), time.Now()
			mu.Lock()
			defer mu.Unlock()

			return err == nil && len(had) == entries+1 && time.Since(begun) > outboxLease+relayInterval
		}, "not all were carried out")
		close(slow)
		wait.For(t, courierPatience, func() bool {
			all, err := b.Outbox(t.Context(), 1)

			return err == nil && len(all) == 0
		}, "something is left")
		for id, n := range had {
			if n != 1 && longest < outboxRenew { // who is not heard of for long counts as gone, on a machine that stands still too
				t.Errorf("%s was carried out %d times; the longest look at the outbox took %s", id, n, longest)
			}
		}
	})
}
