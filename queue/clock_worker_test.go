package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/queue/queuetest"
)

// locked is a worker with one job that runs until its context ends; cause gets why it did.
func locked(t *testing.T, r *queuetest.Redis, q *queue.Queue) (job queue.Added, cause <-chan error) {
	t.Helper()

	job = addJob(t, q, queue.JobOptions{})
	ended := make(chan error, 2) // it may be taken again

	r.Work(t, r.WorkerOptions("clock"), func(ctx context.Context, _ *queue.Job) (any, error) {
		<-ctx.Done()

		ended <- context.Cause(ctx)

		return nil, ctx.Err()
	})
	r.AwaitState(t, q, job.ID, queue.StateActive, time.Second)

	return job, ended
}

func TestClockLockIsRenewed(t *testing.T) {
	bubble(t, func(t *testing.T, r *queuetest.Redis, q *queue.Queue) {
		job, ended := locked(t, r, q)
		renewals, before := 0, queue.DefaultLockDuration

		for range 3600 {
			queuetest.Advance(time.Second)

			left := r.Client().PTTL(t.Context(), "bull:clock:"+job.ID+":lock").Val()
			if left < queue.DefaultLockDuration/2 {
				t.Fatalf("the lock had only %v left", left)
			}

			if left > before {
				renewals++
			}

			before = left
		}

		// Each 7.5 s, as BullMQ does with its defaults.
		if renewals < 475 || renewals > 481 {
			t.Errorf("%d renewals in an hour, want 480", renewals)
		}

		if len(ended) > 0 {
			t.Errorf("the job was stopped: %v", <-ended)
		}

		queuetest.AssertState(t, q, job.ID, queue.StateActive)
	})
}

func TestClockLockTakenAway(t *testing.T) {
	bubble(t, func(t *testing.T, r *queuetest.Redis, q *queue.Queue) {
		job, ended := locked(t, r, q)
		must(t, r.Client().Set(t.Context(), "bull:clock:"+job.ID+":lock", "another", time.Hour).Err())

		began := time.Now()

		if err := <-ended; !errors.Is(err, queue.ErrLockLost) {
			t.Errorf("ended with %v, want ErrLockLost", err)
		}

		expectTime(t, "stopped", time.Since(began), 0, 15*time.Second)
	})
}

func TestClockLockRunsOutWithoutRedis(t *testing.T) {
	bubble(t, func(t *testing.T, r *queuetest.Redis, q *queue.Queue) {
		job, ended := locked(t, r, q)

		queuetest.Advance(time.Minute)
		r.Down()

		began := time.Now()

		if err := <-ended; !errors.Is(err, queue.ErrLockLost) {
			t.Errorf("ended with %v, want ErrLockLost", err)
		}

		expectTime(t, "stopped", time.Since(began), 15*time.Second, queue.DefaultLockDuration)
		queuetest.Advance(time.Hour)
		r.Up()

		// Nobody has written anything for the job, so it comes back and is started again.
		r.Await(t, 2*time.Minute, "a second start", func(ctx context.Context) (bool, error) {
			j, err := q.Job(ctx, job.ID)

			return err == nil && j.AttemptsStarted == 2, err
		}, nil)
	})
}

// A worker goes on within seconds of the end of an outage, however long that was, and a job that came meanwhile by another way is found.
func TestClockOutage(t *testing.T) {
	bubble(t, func(t *testing.T, r *queuetest.Redis, q *queue.Queue) {
		r.Work(t, r.WorkerOptions("clock"), func(context.Context, *queue.Job) (any, error) { return nil, nil })
		queuetest.Advance(time.Minute)
		r.Down()
		queuetest.Advance(20 * time.Minute)
		r.Up()

		job := addJob(t, q, queue.JobOptions{})
		r.AwaitState(t, q, job.ID, queue.StateCompleted, 5*time.Second)
	})
}

func TestClockIdleWorkerIsQuiet(t *testing.T) {
	bubble(t, func(t *testing.T, r *queuetest.Redis, _ *queue.Queue) {
		w := r.Work(t, r.WorkerOptions("clock"), func(context.Context, *queue.Job) (any, error) { return nil, nil })
		queuetest.Advance(time.Minute)

		before := r.Commands()

		queuetest.Advance(time.Hour)

		// A block and a claim each drain delay of 5 s, and a stalled check each 30 s.
		if got := r.Commands() - before; got > 3600/5*2+3600/30+20 {
			t.Errorf("an idle worker sent %d commands in an hour", got)
		}

		if age := time.Since(w.Status().LastFetch); age > queue.DefaultDrainDelay {
			t.Errorf("the last fetch was %v ago, more than the drain delay", age)
		}
	})
}

func TestClockDrainDelay(t *testing.T) {
	bubble(t, func(t *testing.T, r *queuetest.Redis, q *queue.Queue) {
		o := r.WorkerOptions("clock")
		o.DrainDelay = 8 * time.Second
		r.Work(t, o, func(context.Context, *queue.Job) (any, error) { return nil, nil })
		queuetest.Advance(time.Minute)

		// Somebody puts a job there and tells nobody.
		job := addJob(t, q, queue.JobOptions{Delay: time.Hour})
		must(t, r.Client().ZRem(t.Context(), "bull:clock:delayed", job.ID).Err())
		must(t, r.Client().LPush(t.Context(), "bull:clock:wait", job.ID).Err())
		must(t, r.Client().Del(t.Context(), "bull:clock:marker").Err())

		began := time.Now()

		r.AwaitState(t, q, job.ID, queue.StateCompleted, time.Minute)
		expectTime(t, "found", time.Since(began), 0, 10*time.Second)
	})
}

func TestClockResults(t *testing.T) {
	bubble(t, func(t *testing.T, r *queuetest.Redis, q *queue.Queue) {
		results, err := queue.NewResults(r.Options("clock"))
		must(t, err)
		r.Go(t, results.Run)
		<-results.Ready()

		r.Work(t, r.WorkerOptions("clock"), func(context.Context, *queue.Job) (any, error) { return 42, nil })

		began := time.Now()
		job := addJob(t, q, queue.JobOptions{Delay: 30 * time.Minute, RemoveOnComplete: &queue.Keep{Now: true}})

		value, err := results.Wait(t.Context(), job.ID)
		must(t, err)

		if string(value) != "42" {
			t.Errorf("result %s, want 42", value)
		}

		expectTime(t, "answered", time.Since(began), 30*time.Minute, 30*time.Minute+10*time.Millisecond)
	})
}

// Schedules follow the clock of their zone: 02:30 does not exist on the day when summer time begins and is there twice when it ends.
func TestClockScheduleThroughSummerTime(t *testing.T) {
	const zone = "Europe/Berlin"

	for name, c := range map[string]struct {
		from string
		want []string
	}{
		"begin": {"2000-03-25T20:00:00Z", []string{"26 03:30 +0200", "27 02:30 +0200"}},
		"end":   {"2000-10-28T20:00:00Z", []string{"29 02:30 +0200", "30 02:30 +0100"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *queuetest.Redis, q *queue.Queue) {
				berlin, err := time.LoadLocation(zone)
				must(t, err)

				from, err := time.Parse(time.RFC3339, c.from)
				must(t, err)
				queuetest.Advance(time.Until(from))

				_, err = q.UpsertScheduler(t.Context(), "nightly", queue.Repeat{Pattern: "30 2 * * *", TZ: zone}, queue.NewJob{})
				must(t, err)

				var got []string

				o := r.WorkerOptions("clock")
				o.StalledInterval = time.Hour
				r.Work(t, o, func(context.Context, *queue.Job) (any, error) {
					got = append(got, time.Now().Round(time.Second).In(berlin).Format("02 15:04 -0700"))
					return nil, nil
				})
				queuetest.Advance(30 * time.Hour)

				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("runs (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A year of a daily schedule and of one each 36 hours, taken when they are due.
func TestClockScheduleForAYear(t *testing.T) {
	bubble(t, func(t *testing.T, r *queuetest.Redis, q *queue.Queue) {
		ctx := t.Context()

		_, err := q.UpsertScheduler(ctx, "daily", queue.Repeat{Pattern: "0 9 * * *", TZ: "America/New_York"}, queue.NewJob{Data: "d"})
		must(t, err)
		_, err = q.UpsertScheduler(ctx, "every", queue.Repeat{Every: 36 * time.Hour}, queue.NewJob{Data: "e"})
		must(t, err)

		p, err := queue.NewPuller(r.WorkerOptions("clock"))
		must(t, err)

		defer p.Close()

		york, err := time.LoadLocation("America/New_York")
		must(t, err)

		runs := map[string]int{}
		end := time.Now().AddDate(1, 0, 0)

		for time.Now().Before(end) {
			due, err := q.Schedulers(ctx, 0, 1)
			must(t, err)
			queuetest.Advance(time.Until(due[0].Next))

			for {
				c, err := p.Next(ctx, false)
				must(t, err)

				if c == nil {
					break
				}

				runs[c.Job.SchedulerID]++

				if local := time.Now().In(york); c.Job.SchedulerID == "daily" && local.Hour() != 9 {
					t.Errorf("daily job at %v", local)
				}

				c.Finish(nil)
			}
		}

		if diff := cmp.Diff(map[string]int{"daily": 366, "every": 366*24/36 + 1}, runs); diff != "" {
			t.Errorf("runs from the first moment of 2000 to that of 2001 (-want +got):\n%s", diff)
		}
	})
}

func TestClockEventsResume(t *testing.T) {
	bubble(t, func(t *testing.T, r *queuetest.Redis, q *queue.Queue) {
		var last string

		read := func(want int) (names []string) {
			e, err := queue.NewEvents(r.Options("clock"))
			must(t, err)

			errEnough := errors.New("enough")
			err = e.RunFrom(t.Context(), last, func(e queue.Event) error {
				names = append(names, e.Name)
				last = e.ID

				if e.Gap {
					t.Errorf("a gap before %v", e)
				}

				if len(names) == want {
					return errEnough
				}

				return nil
			})
			if !errors.Is(err, errEnough) {
				t.Fatal(err)
			}

			return names
		}

		last = "0"
		addJob(t, q, queue.JobOptions{})

		got := read(2)

		queuetest.Advance(24 * time.Hour)
		addJob(t, q, queue.JobOptions{Delay: time.Hour})

		got = append(got, read(2)...)
		if diff := cmp.Diff([]string{"added", "waiting", "added", "delayed"}, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// H with a seed is the same minute each day.
func TestClockHashedSchedule(t *testing.T) {
	bubble(t, func(t *testing.T, r *queuetest.Redis, q *queue.Queue) {
		ctx := t.Context()

		_, err := q.UpsertScheduler(ctx, "spread", queue.Repeat{Pattern: "H H(1-4) * * *", TZ: "UTC", HashSeed: "tenant 7"}, queue.NewJob{})
		must(t, err)

		p, err := queue.NewPuller(r.WorkerOptions("clock"))
		must(t, err)

		defer p.Close()

		minutes := map[string]int{}

		for range 5 {
			due, err := q.Schedulers(ctx, 0, 1)
			must(t, err)
			queuetest.Advance(time.Until(due[0].Next))

			c, err := p.Next(ctx, false)
			must(t, err)
			c.Finish(nil)

			minutes[time.Now().Format("15:04")]++
		}

		if len(minutes) != 1 {
			t.Errorf("ran at %v, want one minute on five days", minutes)
		}
	})
}
