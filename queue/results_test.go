package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
)

// runResults starts a Results that is ready.
func (k *kit) runResults(name string) *Results {
	k.t.Helper()

	r, err := NewResults(k.options(name))
	k.must(err)

	ctx, cancel := context.WithCancel(context.Background())

	var wg sync.WaitGroup

	wg.Go(func() { _ = r.Run(ctx) })
	k.t.Cleanup(func() { cancel(); wg.Wait() })
	<-r.Ready()

	return r
}

// Fast jobs that are gone the moment they finish, waited for from the moment that Add returns.
func TestResultsOfFastJobs(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q, r := k.queue("q"), k.runResults("q")

	o := k.workerOptions("q")
	o.Concurrency, o.Logger = 8, nil
	o.RemoveOnComplete, o.RemoveOnFail = &Keep{Now: true}, &Keep{Now: true}
	k.run(o, func(_ context.Context, j *Job) (any, error) {
		if j.Name == "bad" {
			return nil, errBoom
		}

		return j.ID, nil
	})

	var wg sync.WaitGroup

	for range 8 {
		wg.Go(func() {
			for i := range 60 {
				name := "good"
				if i%10 == 0 {
					name = "bad"
				}

				checkResult(t, r, k.add(q, name, nil, JobOptions{}), name)
			}
		})
	}

	wg.Wait()
}

func checkResult(t *testing.T, r *Results, id, name string) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()

	value, err := r.Wait(ctx, id)
	if failed, ok := errors.AsType[*JobFailedError](err); ok && name == "bad" && failed.Reason == "boom" {
		return
	}

	if err != nil || string(value) != strconv.Quote(id) || name == "bad" {
		t.Errorf("%s job %s: %s, %v", name, id, value, err)
	}
}

func TestResultsOfJobsThatGoAway(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q, r := k.queue("q"), k.runResults("q")

	waitFor := func(id string) chan error {
		end := make(chan error, 1)
		go func() { // ends with the wait, which the test waits for
			_, err := r.Wait(t.Context(), id)
			end <- err
		}()

		wait.For(t, testTimeout, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.waiters[id]) == 1 })

		return end
	}

	removed := waitFor(k.add(q, "a", nil, JobOptions{JobID: "removed"}))
	k.must(q.Remove(t.Context(), "removed"))

	drained := waitFor(k.add(q, "a", nil, JobOptions{JobID: "drained"})) // makes no event
	_, err := q.Drain(t.Context(), true)
	k.must(err)

	for name, end := range map[string]chan error{"removed": removed, "drained": drained} {
		if err := <-end; !errors.Is(err, ErrJobNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}

	if _, err := r.Wait(t.Context(), "none"); !errors.Is(err, ErrJobNotFound) {
		t.Errorf("a job that never was: %v", err)
	}

	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()

	if _, err := r.Wait(short, k.add(q, "a", nil, JobOptions{})); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a job that does not end: %v", err)
	}
}

// A job is gone, and the reader of events takes longer to come to its end than Wait would give one that reads nothing: there is a result.
func TestResultOfASlowReader(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")

	r, err := NewResults(k.options("q")) // the test reads for it
	k.must(err)
	t.Cleanup(func() { _ = r.q.Close() })

	const events = 6

	publish(t, q, events, 1000)

	entries, err := k.r.XRange(t.Context(), "bull:q:events", "-", "+").Result()
	k.must(err)

	got := make(chan string, 1)
	go func() { // ends with the result, or the test
		value, err := r.Wait(t.Context(), "fast")
		got <- fmt.Sprint(string(value), err)
	}()

	wait.For(t, testTimeout, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.waiters["fast"]) == 1 })

	for i, e := range entries {
		sleep(t.Context(), 2*recheckWaited/events) // the reader's slowness

		if i < events-1 {
			r.note(Event{ID: e.ID, Name: "custom"})
		} else {
			r.note(Event{ID: e.ID, Name: "completed", JobID: "fast", Fields: map[string]string{"returnvalue": "7"}})
		}
	}

	if end := <-got; end != "7<nil>" {
		t.Errorf("the wait ended with %s", end)
	}
}

// A reader that was away while the stream was trimmed is told so, once; one that goes on in time misses nothing.
func TestEventsTellGaps(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	k.must(q.PublishEvent(t.Context(), "first", 100000))

	read := func(after string, until string) (events []Event) {
		e, err := NewEvents(k.options("q"))
		k.must(err)

		err = e.RunFrom(t.Context(), after, func(e Event) error {
			events = append(events, e)
			if e.Name == until {
				return errBoom
			}

			return nil
		})
		if !errors.Is(err, errBoom) {
			t.Fatal(err)
		}

		return events
	}

	first := read("0", "first")
	publish(t, q, 50, 100000)

	kept := read(first[0].ID, "49")
	if len(kept) != 50 || kept[0].Gap {
		t.Errorf("%d events, first %+v", len(kept), kept[0])
	}

	publish(t, q, 3000, 1000)

	late := read(kept[49].ID, "2999")
	if len(late) >= 3000 || !late[0].Gap || late[1].Gap {
		t.Errorf("%d events, first %+v", len(late), late[0])
	}

	if again := read("0", "2999"); again[0].Gap {
		t.Error("the oldest event there is follows no gap")
	}
}

func publish(t *testing.T, q *Queue, n int, most int64) {
	t.Helper()

	for i := range n {
		if err := q.PublishEvent(t.Context(), strconv.Itoa(i), most); err != nil {
			t.Fatal(err)
		}
	}
}
