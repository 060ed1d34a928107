package worker_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/queue"
)

// rounds of the race of both doors.
const rounds = 300

// TestBothDoorsRace sends a job to each door at the same moment, with 1 slot and with 2: never more runs at once than slots,
// never a 429 from an idle worker, and no waiting job is stranded.
func TestBothDoorsRace(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d slots", slots), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, true)
			var mu sync.Mutex
			running, most := 0, 0
			// A run is between its download and its result.
			b.plane.Fault("get", func(http.ResponseWriter, *http.Request) bool {
				mu.Lock()
				defer mu.Unlock()
				running++
				most = max(most, running)
				return false
			})
			b.plane.Fault("result", func(http.ResponseWriter, *http.Request) bool {
				mu.Lock()
				defer mu.Unlock()
				running--
				return false
			})
			w := b.start("SLOTS", strconv.Itoa(slots), "LOG_LEVEL", "error")
			slowest := time.Duration(0)
			for i := range rounds {
				slowest = max(slowest, b.round(w, i, slots))
			}
			mu.Lock()
			defer mu.Unlock()
			if most > slots {
				t.Errorf("%d runs at once on %d slots", most, slots)
			}
			t.Logf("%d rounds, slowest %s", rounds, slowest)
		})
	}
}

// round is one race; it returns how long the queue's job took.
func (b *bench) round(w *running, i, slots int) time.Duration {
	b.t.Helper()
	q, h := fmt.Sprintf("an_q%d", i), fmt.Sprintf("an_h%d", i)
	b.plane.Add(q, "ok")
	b.plane.Add(h, "ok")
	var wg sync.WaitGroup
	var got reply
	begin := time.Now()
	wg.Go(func() { b.add(q, 1) })
	wg.Go(func() { got = w.post(h) })
	wg.Wait()
	switch {
	case got.Code == 202:
		wait.For(b.t, long, func() bool { s, _ := b.plane.State(h); return s == "delivered" }, "round %d: the door's job", i)
	case got.Code == 429 && slots == 1: // then the queue's job must have the slot
		if len(b.plane.Calls("redeem", q)) == 0 && b.state(q) == queue.StateWaiting {
			b.t.Errorf("round %d: an idle worker answered 429", i)
		}
	default:
		b.t.Errorf("round %d: %d %v", i, got.Code, got.Body)
	}
	wait.For(b.t, long, func() bool { s, _ := b.plane.State(q); return s == "delivered" }, "round %d: the queue's job is stranded", i)
	took := time.Since(begin)
	if took > long {
		b.t.Errorf("round %d: the queue's job took %s", i, took)
	}
	wait.For(b.t, long, func() bool { return b.state(q) == queue.StateCompleted }, "round %d: not completed", i)
	w.awaitFree() // a run holds its slot a moment longer than the control plane needs to have its result
	return took
}

// TestIdleWorkerNeverRefuses: alone at the door, with a queue door that keeps looking for work.
func TestIdleWorkerNeverRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	w := b.start("LOG_LEVEL", "error")
	for i := range 50 {
		id := fmt.Sprintf("an_%d", i)
		b.plane.Add(id, "ok")
		// A marker without a job makes the queue door claim at the same moment.
		if err := b.redis.Client().ZAdd(t.Context(), "bull:pose:marker", zero()).Err(); err != nil {
			t.Fatal(err)
		}
		if got := w.post(id); got.Code != 202 {
			t.Fatalf("%d: %d %v", i, got.Code, got.Body)
		}
		wait.For(t, long, func() bool { return w.get(id).Body["status"] == "delivered" }, "not delivered")
	}
}

// TestSameIDThroughBothDoors: the lease decides, one result comes out.
func TestSameIDThroughBothDoors(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.plane.Lease = 6 * time.Second
	w := b.start("SLOTS", "2")
	b.plane.Add("an_1", "slow 6s")
	if got := w.post("an_1"); got.Code != 202 {
		t.Fatalf("%d", got.Code)
	}
	b.add("an_1", 2)
	j := b.awaitState("an_1", queue.StateDelayed)
	if j.AttemptsMade != 0 {
		t.Errorf("%d attempts spent", j.AttemptsMade)
	}
	j = b.awaitState("an_1", queue.StateCompleted)
	if !strings.Contains(string(j.ReturnValue), "alreadyDelivered") {
		t.Errorf("return value %s", j.ReturnValue)
	}
	if n := b.plane.Stored(); n != 1 {
		t.Errorf("%d results stored, want 1", n)
	}
	if n := len(b.plane.Calls("get", "an_1")); n != 1 {
		t.Errorf("%d downloads, want 1", n)
	}
}

// TestManyPostsOfOneID: one analysis, and every caller gets the same answer.
func TestManyPostsOfOneID(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	w := b.start()
	b.plane.Add("an_1", "hang")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got := w.post("an_1"); got.Code != 202 {
				t.Errorf("%d %v", got.Code, got.Body)
			}
		})
	}
	wg.Wait()
	if n := len(b.plane.Calls("redeem", "an_1")); n != 1 {
		t.Errorf("%d redemptions, want 1", n)
	}
}
