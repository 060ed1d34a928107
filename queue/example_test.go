package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/queue/queuetest"
)

// The examples run on the Redis in memory of the package queuetest. A program has queue.Options{RedisURL: …, Name: …} in the place of
// r.Options(…).

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A producer adds a job, a worker does it.
func Example() {
	r, err := queuetest.Start()
	check(err)

	defer r.Close()

	q, err := queue.NewQueue(r.Options("mail"))
	check(err)

	defer q.Close()

	ctx := context.Background()
	added, err := q.Add(ctx, "welcome", map[string]string{"to": "ann"}, queue.JobOptions{Attempts: 3})
	check(err)

	var w *queue.Worker

	w, err = queue.NewWorker(r.WorkerOptions("mail"), func(_ context.Context, j *queue.Job) (any, error) {
		defer w.Drain() // one job is enough here

		var mail struct{ To string }
		if err := json.Unmarshal(j.Data, &mail); err != nil {
			return nil, queue.Unrecoverable(err)
		}

		return "sent to " + mail.To, nil
	})
	check(err)
	check(w.Run(ctx)) // until w.Drain, or the end of ctx

	j, err := q.Job(ctx, added.ID)
	check(err)
	fmt.Printf("%s %s: %s\n", j.Name, j.ID, j.ReturnValue)
	// Output: welcome 1: "sent to ann"
}

// With an id of its own a job can be added again after any doubt.
func ExampleQueue_Add() {
	r, err := queuetest.Start()
	check(err)

	defer r.Close()

	q, err := queue.NewQueue(r.Options("mail"))
	check(err)

	defer q.Close()

	ctx := context.Background()

	for range 2 {
		added, err := q.Add(ctx, "invoice", json.RawMessage(`{"order":7}`), queue.JobOptions{JobID: "invoice-7", Delay: time.Hour})
		check(err)
		fmt.Println(added.ID, "was there already:", added.Duplicate)
	}

	once := queue.JobOptions{Deduplication: &queue.Deduplication{ID: "report", TTL: time.Minute}}

	for range 2 {
		added, err := q.Add(ctx, "report", nil, once)
		check(err)
		fmt.Println(added.ID, "is another's:", added.Deduplicated)
	}
	// Output:
	// invoice-7 was there already: false
	// invoice-7 was there already: true
	// 3 is another's: false
	// 3 is another's: true
}

// What the handler returns says what becomes of the job.
func ExampleWorker() {
	r, err := queuetest.Start()
	check(err)

	defer r.Close()

	q, err := queue.NewQueue(r.Options("work"))
	check(err)

	defer q.Close()

	ctx := context.Background()
	names := []string{"fine", "broken", "try again", "tomorrow"}

	for _, name := range names {
		_, err := q.Add(ctx, name, nil, queue.JobOptions{JobID: "id of " + name, Attempts: 2})
		check(err)
	}

	errDown := errors.New("the printer is down")

	var w *queue.Worker

	w, err = queue.NewWorker(r.WorkerOptions("work"), func(_ context.Context, j *queue.Job) (any, error) {
		switch j.Name {
		case "broken":
			return nil, queue.Unrecoverable(errDown) // no attempt that is left will help
		case "tomorrow":
			return nil, queue.DelayFor(24*time.Hour, errDown) // costs no attempt
		case "try again":
			if !j.LastAttempt() {
				return nil, errDown // costs one
			}

			w.Drain()
		}

		return "done", nil
	})
	check(err)
	check(w.Run(ctx))

	for _, name := range names {
		state, err := q.State(ctx, "id of "+name)
		check(err)
		fmt.Printf("%s: %s\n", name, state)
	}
	// Output:
	// fine: completed
	// broken: failed
	// try again: completed
	// tomorrow: delayed
}

// A job with children runs when they are done, and reads what they returned.
func ExampleFlows() {
	r, err := queuetest.Start()
	check(err)

	defer r.Close()

	f, err := queue.NewFlows(r.FlowOptions())
	check(err)

	defer f.Close()

	ctx := context.Background()

	_, err = f.Add(ctx, queue.FlowJob{Queue: "video", Name: "join", Children: []queue.FlowJob{
		{Queue: "video", Name: "part", Data: 20},
		{Queue: "video", Name: "part", Data: 22},
	}})
	check(err)

	var w *queue.Worker

	w, err = queue.NewWorker(r.WorkerOptions("video"), func(ctx context.Context, j *queue.Job) (any, error) {
		if j.Name == "part" {
			return j.Data, nil
		}

		defer w.Drain()

		values, err := j.ChildrenValues(ctx)
		if err != nil {
			return nil, err
		}

		sum := 0

		for _, value := range values {
			var n int
			if err := json.Unmarshal(value, &n); err != nil {
				return nil, queue.Unrecoverable(err)
			}

			sum += n
		}

		fmt.Println(len(values), "parts make", sum)

		return sum, nil
	})
	check(err)
	check(w.Run(ctx))
	// Output: 2 parts make 42
}

// Schedulers make jobs by the clock; whoever takes one makes the next.
func ExampleQueue_UpsertScheduler() {
	r, err := queuetest.Start()
	check(err)

	defer r.Close()

	q, err := queue.NewQueue(r.Options("reports"))
	check(err)

	defer q.Close()

	ctx := context.Background()
	template := queue.NewJob{Name: "report", Data: "sales", Opts: queue.JobOptions{Attempts: 5}}

	// Upserting it again, as each start of a program may, changes nothing.
	for range 2 {
		_, err = q.UpsertScheduler(ctx, "nightly", queue.Repeat{Pattern: "30 2 * * *", TZ: "Europe/Berlin"}, template)
		check(err)
	}

	_, err = q.UpsertScheduler(ctx, "often", queue.Repeat{Every: 10 * time.Minute, Limit: 100}, template)
	check(err)

	all, err := q.Schedulers(ctx, 0, 10)
	check(err)

	for _, s := range all {
		fmt.Println(s.ID, s.Repeat.Every, s.Repeat.Pattern, s.Template.Name)
	}
	// Output:
	// often 10m0s  report
	// nightly 0s 30 2 * * * report
}

// Whoever remembers the last event goes on after it.
func ExampleEvents() {
	r, err := queuetest.Start()
	check(err)

	defer r.Close()

	q, err := queue.NewQueue(r.Options("mail"))
	check(err)

	defer q.Close()

	ctx := context.Background()
	last := "0" // the oldest event there is; "" would mean from now on

	// follow reads until a job waits or is put off.
	follow := func() {
		events, err := queue.NewEvents(r.Options("mail"))
		check(err)

		ctx, stop := context.WithCancel(ctx)
		defer stop()

		check(events.RunFrom(ctx, last, func(e queue.Event) error {
			if e.Gap {
				fmt.Println("events are lost: read the state anew")
			}

			fmt.Println(e.Name, e.JobID)

			if last = e.ID; e.Name != "added" {
				stop()
			}

			return nil
		}))
	}

	_, err = q.Add(ctx, "welcome", nil, queue.JobOptions{})
	check(err)
	follow()

	// While nobody reads, more happens.
	_, err = q.Add(ctx, "goodbye", nil, queue.JobOptions{Delay: time.Hour})
	check(err)
	follow()
	// Output:
	// added 1
	// waiting 1
	// added 2
	// delayed 2
}
