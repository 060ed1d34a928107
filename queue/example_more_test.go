package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/queue/queuetest"
)

// A caller waits for what a job returns.
func ExampleResults_Wait() {
	r, err := queuetest.Start()
	check(err)

	defer r.Close()

	q, err := queue.NewQueue(r.Options("sums"))
	check(err)

	defer q.Close()

	ctx, stop := context.WithTimeout(context.Background(), time.Minute)

	var running sync.WaitGroup

	defer running.Wait()
	defer stop()

	results, err := queue.NewResults(r.Options("sums")) // one for all jobs of a queue
	check(err)
	running.Go(func() { check(results.Run(ctx)) })
	<-results.Ready()

	w, err := queue.NewWorker(r.WorkerOptions("sums"), func(_ context.Context, j *queue.Job) (any, error) {
		if j.Name == "divide by zero" {
			return nil, queue.Unrecoverable(errors.New("not even here"))
		}

		return 42, nil
	})
	check(err)
	running.Go(func() { _ = w.Run(ctx) }) // the end of ctx
	defer w.Drain()

	for _, name := range []string{"add", "divide by zero"} {
		added, err := q.Add(ctx, name, nil, queue.JobOptions{RemoveOnComplete: &queue.Keep{Now: true}})
		check(err)

		value, err := results.Wait(ctx, added.ID)
		if failed, ok := errors.AsType[*queue.JobFailedError](err); ok {
			fmt.Println("failed:", failed.Reason)
			continue
		}

		check(err)
		fmt.Printf("result: %s\n", value)
	}
	// Output:
	// result: 42
	// failed: not even here
}

// A Puller is for those who bring their own loop.
func ExamplePuller() {
	r, err := queuetest.Start()
	check(err)

	defer r.Close()

	q, err := queue.NewQueue(r.Options("work"))
	check(err)

	defer q.Close()

	ctx := context.Background()
	_, err = q.AddBulk(ctx, []queue.NewJob{{Name: "easy"}, {Name: "hard"}})
	check(err)

	p, err := queue.NewPuller(r.WorkerOptions("work"))
	check(err)

	defer p.Close()

	for {
		c, err := p.Next(ctx, false)
		check(err)

		if c == nil {
			break
		}

		if c.Job.Name == "hard" {
			check(c.Extend(ctx)) // a Puller renews no locks by itself
			fmt.Println(c.Job.Name, c.Fail(errors.New("too hard")))

			continue
		}

		fmt.Println(c.Job.Name, c.Finish("done"))
	}
	// Output:
	// easy completed
	// hard failed
}

// A gate is capacity that a worker shares with another door of the program.
func ExampleSlots() {
	r, err := queuetest.Start()
	check(err)

	defer r.Close()

	gate := queue.NewGate(2)

	// The other door, such as an HTTP handler, takes a slot or answers that there is none.
	slot, ok := gate.TryClaim()
	fmt.Println("the door has a slot:", ok)
	slot.Confirm()

	o := r.WorkerOptions("work")
	o.Gate = gate

	q, err := queue.NewQueue(o.Options)
	check(err)

	defer q.Close()

	ctx := context.Background()
	_, err = q.Add(ctx, "n", nil, queue.JobOptions{})
	check(err)

	var w *queue.Worker

	w, err = queue.NewWorker(o, func(context.Context, *queue.Job) (any, error) {
		_, ok := gate.TryClaim()
		fmt.Println("while a job runs there is another one:", ok)
		w.Drain()

		return nil, nil
	})
	check(err)
	check(w.Run(ctx))
	slot.Release()
	fmt.Println("slots taken:", gate.Taken())
	// Output:
	// the door has a slot: true
	// while a job runs there is another one: false
	// slots taken: 0
}

// Limits hold for all workers of a queue together, in any language.
func ExampleQueue_SetGlobalRateLimit() {
	r, err := queuetest.Start()
	check(err)

	defer r.Close()

	q, err := queue.NewQueue(r.Options("calls"))
	check(err)

	defer q.Close()

	ctx := context.Background()
	check(q.SetGlobalConcurrency(ctx, 10))
	check(q.SetGlobalRateLimit(ctx, queue.Limiter{Max: 2, Duration: time.Hour}))

	for range 5 {
		_, err := q.Add(ctx, "call", nil, queue.JobOptions{})
		check(err)
	}

	p, err := queue.NewPuller(r.WorkerOptions("calls"))
	check(err)

	defer p.Close()

	for {
		c, err := p.Next(ctx, false)
		check(err)

		if c == nil {
			break
		}

		c.Finish(nil)
	}

	counts, err := q.Counts(ctx)
	check(err)
	fmt.Println(counts.Completed, "are done,", counts.Waiting, "wait for the next hour")
	// Output: 2 are done, 3 wait for the next hour
}

// Pause stops all workers of the queue, in any language; what runs goes on.
func ExampleQueue_Pause() {
	r, err := queuetest.Start()
	check(err)

	defer r.Close()

	q, err := queue.NewQueue(r.Options("mail"))
	check(err)

	defer q.Close()

	ctx := context.Background()
	check(q.Pause(ctx))

	_, err = q.Add(ctx, "welcome", nil, queue.JobOptions{})
	check(err)

	counts, err := q.Counts(ctx)
	check(err)
	fmt.Println("paused:", counts.Paused, "waiting:", counts.Waiting)

	check(q.Resume(ctx))

	removed, err := q.Drain(ctx, true)
	check(err)
	fmt.Println("removed:", removed)
	// Output:
	// paused: true waiting: 1
	// removed: 1
}
