package conformance

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
)

const (
	raceRounds = 300
	// strandedAfter is how long a job may wait beside a free slot: the longest block on the marker (5 s), and more where everything waits
	// for a core.
	strandedAfter = 30 * time.Second
)

// TestBothDoorsRace sends one job to each door of one worker at the same moment, again and again: never more work than slots, no 429 from
// a worker that has nothing to do, no job left behind. In every other round somebody rings the queue's bell for nothing, so that the
// worker is looking for jobs that are not there while the door is knocked at.
func TestBothDoorsRace(t *testing.T) {
	t.Parallel()

	for _, slots := range []int{1, 2} {
		t.Run(fmt.Sprintf("slots=%d", slots), func(t *testing.T) {
			t.Parallel()

			s := newSystem(t, posefleet(t))
			w := s.startWorker("worker", extra{
				"POSEFLEET_SLOTS": strconv.Itoa(slots), "POSEFLEET_EXTRACTOR": stopwatch{work: time.Millisecond}.command(),
				"POSEFLEET_LOG_LEVEL": "info",
			})
			r := &race{system: s, worker: w, door: s.door(w), redis: s.redis.Client(), slots: slots}

			for round := range raceRounds {
				r.round(t, round)

				if t.Failed() {
					return
				}
			}

			if got := r.mostAtOnce(); got > slots {
				t.Errorf("%d analyses at once in %d slots", got, slots)
			}

			t.Logf("%d rounds: door first %d times, 429 %d times; longest wait of a queue job %v", raceRounds, r.accepted, r.refused, r.longest)
			s.checkQuiet(w)
		})
	}
}

// race is the state of one race.
type race struct {
	*system

	worker *worker
	door   *knock
	redis  *redis.Client
	slots  int

	accepted, refused int
	longest           time.Duration
}

// round has one job for each door.
func (r *race) round(t *testing.T, n int) {
	t.Helper()

	queued, pushed := fmt.Sprintf("an_q%d", n), fmt.Sprintf("an_d%d", n)
	r.prepare(queued, r.textClip(), nil)
	r.prepare(pushed, r.textClip(), nil)

	// The queue's job of the round before has its slot a moment longer than its place in Redis.
	wait.For(t, startLimit, func() bool { return r.worker.metric("posefleet_slots_in_use") == "0" }, "round %d: the worker is not idle", n)

	silence := r.noise(t.Context(), n%2 == 1)
	defer silence()

	var (
		first   answer
		err     error
		knocker sync.WaitGroup
	)

	knocker.Go(func() { first, err = r.door.start(t.Context(), pushed) })
	r.add(queued, 1)
	knocker.Wait()

	if err != nil {
		t.Errorf("round %d: %v", n, err)

		return
	}

	r.judge(t, n, first)
	r.checkQueued(t, n, queued)

	if first.status == http.StatusTooManyRequests {
		r.knockWhenIdle(t, n, pushed)
	}

	r.awaitDoor(t, n, pushed)
}

// noise rings the bell until it is silenced.
func (r *race) noise(ctx context.Context, on bool) (silence func()) {
	if !on {
		return func() {}
	}

	ctx, cancel := context.WithCancel(ctx)

	var ringer sync.WaitGroup

	ringer.Go(func() { // ends with cancel
		for ctx.Err() == nil {
			r.redis.ZAdd(ctx, "bull:"+queueName+":marker", redis.Z{Score: 0, Member: "0"})

			select {
			case <-time.After(2 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})

	return func() {
		cancel()
		ringer.Wait()
	}
}

// judge: the door may only refuse what it has no room for.
func (r *race) judge(t *testing.T, n int, a answer) {
	t.Helper()

	switch a.status {
	case http.StatusAccepted:
		r.accepted++
	case http.StatusTooManyRequests:
		r.refused++

		if r.slots > 1 {
			t.Errorf("round %d: 429 with a slot free", n)
		}

		if after, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || after < 5 || after > 120 {
			t.Errorf("round %d: Retry-After %q", n, a.header.Get("Retry-After"))
		}
	default:
		t.Errorf("round %d: the door answers %d %s", n, a.status, a.problem.Code)
	}
}

// knockWhenIdle: once nothing runs the door must not say 429.
func (r *race) knockWhenIdle(t *testing.T, n int, id string) {
	t.Helper()
	wait.For(t, startLimit, func() bool { return r.worker.metric("posefleet_slots_in_use") == "0" }, "round %d: no slot is freed", n)

	if a, err := r.door.start(t.Context(), id); err != nil || a.status != http.StatusAccepted {
		t.Errorf("round %d: an idle worker answers %d %s, %v", n, a.status, a.problem.Code, err)
	}
}

func (r *race) checkQueued(t *testing.T, n int, id string) {
	t.Helper()

	job := r.awaitJob(id)
	waited := job.ProcessedOn.Sub(job.Timestamp)
	r.longest = max(r.longest, waited)

	if waited > strandedAfter || job.FailedReason != "" || job.AttemptsStarted != 1 {
		t.Errorf("round %d: the queue's job waited %v, %d starts, reason %q", n, waited, job.AttemptsStarted, job.FailedReason)
	}
}

func (r *race) awaitDoor(t *testing.T, n int, id string) {
	t.Helper()

	var state protocol.DoorState

	wait.For(t, startLimit, func() bool {
		now, err := r.door.state(t.Context(), id)
		state = now

		return err == nil && now.Status != protocol.DoorAccepted && now.Status != protocol.DoorRunning
	}, "round %d: the door's job does not end", n)

	if state.Status != protocol.DoorDelivered {
		t.Errorf("round %d: the door's job ended as %s", n, state.Status)
	}
}

// mostAtOnce counts from outside how many analyses were worked on at the same time: from the coming of a redeem to the coming of the
// result a run holds its slot for certain.
func (r *race) mostAtOnce() int {
	type edge struct {
		at   time.Time
		step int
	}

	var edges []edge

	begun := map[string]bool{}

	for _, m := range r.front.record() {
		id := m.Path[strings.LastIndexByte(m.Path, '/')+1:]

		switch {
		case m.is("redeem", id) && m.Status == http.StatusOK && !begun[id]:
			begun[id] = true
			edges = append(edges, edge{m.Came, 1})
		case m.is("result", id) && begun[id]:
			edges = append(edges, edge{m.Came, -1})
		}
	}

	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), a.step-b.step) })

	now, most := 0, 0
	for _, e := range edges {
		now += e.step
		most = max(most, now)
	}

	return most
}
