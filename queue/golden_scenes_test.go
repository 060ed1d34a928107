package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// finishAndTake is a finish that takes the next job in the same step, as Node's workers do.
func (s *scene) finishAndTake(h *hold, value string) {
	s.t.Helper()

	h.chained = true

	s.must(s.w.exchange.write(h.final(keyCompleted, []byte(value), nil, nil)))

	if h.next == nil {
		s.t.Fatal("the finish took no job")
	}

	// Node locks it with the token of the job before; our calls have one of their own, by which their jobs are found if the answer is lost.
	lock := s.w.keys.job(h.next.job.id) + ":lock"
	if got := s.r.Get(s.t.Context(), lock).Val(); got != h.next.token {
		s.t.Errorf("lock %q, want %q", got, h.next.token)
	}

	s.must(s.r.SetArgs(s.t.Context(), lock, h.token, redis.SetArgs{KeepTTL: true}).Err())
}

// nextOf is the slot of the scheduler's pending iteration.
func nextOf(s *scene) string {
	return strconv.FormatInt(int64(s.r.ZScore(s.t.Context(), "bull:q:repeat", "s").Val()), 10)
}

func finishScenes() map[string]func(*scene) {
	return map[string]func(*scene){
		"24": func(s *scene) {
			s.add(s.q, "a", map[string]int{"x": 1}, JobOptions{})
			s.with(func(o *WorkerOptions) { o.WorkerName = "W" })
			s.completeNext("t1", map[string]bool{"ok": true})
		},
		"27": func(s *scene) {
			for i, keep := range []*Keep{{Now: true}, {Count: 1}, {Count: 1}, {Now: true}} {
				s.add(s.q, string(rune('a'+i)), nil, JobOptions{RemoveOnComplete: keep})
			}

			for range 4 {
				s.completeNext("t", 1)
			}
		},
		"29": func(s *scene) { s.plain(1); s.failNext("t1", errBoom, OutcomeFailed) },
		"30": func(s *scene) {
			s.add(s.q, "a", nil, JobOptions{Attempts: 2})
			s.add(s.q, "b", nil, JobOptions{})
			s.failNext("t1", errBoom, OutcomeRetried)
		},
		"31": func(s *scene) {
			s.add(s.q, "a", nil, JobOptions{})
			s.add(s.q, "b", nil, JobOptions{Attempts: 2, LIFO: true})
			s.failNext("t1", errBoom, OutcomeRetried)
		},
	}
}

func retryScenes() map[string]func(*scene) {
	return map[string]func(*scene){
		"33": func(s *scene) {
			s.add(s.q, "a", nil, JobOptions{Attempts: 3, Backoff: &Backoff{Type: "exponential", Delay: 10 * time.Second}})
			s.add(s.q, "b", nil, JobOptions{})
			h := s.take("t1")
			args := []any{
				h.job.ID, time.Now().UnixMilli(), h.token, "10000", "", "1", 30000, "", "", "", "failedReason", "boom", "stacktrace", `["boom"]`,
			}
			reply, err := s.w.scripts.delay.run(s.t.Context(), s.w.client, s.w.keys, args...)
			s.must(err)

			if got, err := parseTaken(reply); err != nil || len(got.jobs) != 1 || got.jobs[0].id != "2" {
				s.t.Fatalf("got %v, %v; want job 2", got, err)
			}
		},
		"34": func(s *scene) {
			s.add(s.q, "a", nil, JobOptions{Attempts: 2})
			s.failNext("t1", errors.New("boom1"), OutcomeRetried)
			s.failNext("t2", errors.New("boom1"), OutcomeFailed)
		},
		"35": func(s *scene) {
			s.add(s.q, "a", nil, JobOptions{Attempts: 5})
			s.failNext("t1", Unrecoverable(errors.New("stop")), OutcomeFailed)
		},
		"36": func(s *scene) {
			s.add(s.q, "a", nil, JobOptions{RemoveOnFail: &Keep{Now: true}})
			s.failNext("t1", errBoom, OutcomeFailed)
		},
		"37": func(s *scene) {
			s.add(s.q, "a", nil, JobOptions{Attempts: 3, StackTraceLimit: new(1)})
			s.failNext("t1", errors.New("e1"), OutcomeRetried)
			s.failNext("t2", errors.New("boom1"), OutcomeRetried)
		},
		"38": playErrors,
		"40": func(s *scene) { s.add(s.q, "a", nil, JobOptions{}); s.add(s.q, "b", nil, JobOptions{}); s.stall(1) },
		"42": func(s *scene) {
			s.with(func(o *WorkerOptions) { o.MaxStalledCount = 0 })
			s.add(s.q, "a", nil, JobOptions{Attempts: 5})
			s.stall(0)

			o := s.workerOptions("q")
			o.StalledInterval = time.Second
			s.work("q", o, func(_ context.Context, j *Job) (any, error) {
				s.t.Errorf("handler called for job %s", j.ID)
				return nil, nil
			})
		},
		"43": func(s *scene) {
			s.add(s.q, "a", nil, JobOptions{Attempts: 5})
			s.expect(s.w.putBack(s.take("t1")), OutcomePutBack)

			o := s.workerOptions("q")
			o.MaxStartedAttempts = 1
			s.work("q", o, func(context.Context, *Job) (any, error) { s.t.Error("handler called"); return nil, nil })
			s.must(s.r.Del(s.t.Context(), "bull:q:stalled-check").Err()) // the observed worker ran without the check
		},
		"85": func(s *scene) {
			s.withinAMinute()
			s.with(func(o *WorkerOptions) { o.MetricsPoints = 60 })
			s.plain(3)
			s.completeNext("t1", 1)
			s.completeNext("t2", 1)
			s.failNext("t3", errors.New("x"), OutcomeFailed)
		},
		"86": func(s *scene) {
			s.withinAMinute()
			s.with(func(o *WorkerOptions) { o.MetricsPoints = 60 })
			s.plain(2)
			s.completeNext("t1", 1)
			back := time.Now().Add(-3 * time.Minute).UnixMilli()
			s.must(s.r.HSet(s.t.Context(), "bull:q:metrics:completed", "prevTS", back).Err())
			s.completeNext("t2", 1)
		},
		"104": func(s *scene) {
			s.plain(1)
			s.with(func(o *WorkerOptions) {
				o.LockDuration = 100 * time.Millisecond
				o.LockRenewTime = 50 * time.Millisecond
			})
			s.take("t1")
			s.stalledCheck(time.Millisecond)
			s.must(s.q.Pause(s.t.Context()))
			s.lockGone("1")
			s.stalledCheck(time.Second)
		},
		"105": func(s *scene) {
			s.add(s.q, "a", nil, JobOptions{Priority: 4, Attempts: 2})
			s.add(s.q, "b", nil, JobOptions{Priority: 4})
			s.failNext("t1", errors.New("x"), OutcomeRetried)
		},
	}
}

// stall lets the first job stall once; most is the worker's limit.
func (s *scene) stall(most int) {
	s.t.Helper()
	s.with(func(o *WorkerOptions) {
		o.LockDuration, o.LockRenewTime, o.MaxStalledCount = 100*time.Millisecond, 50*time.Millisecond, most
	})
	s.take("t1")
	s.stalledCheck(time.Millisecond)
	s.lockGone("1")
	s.stalledCheck(time.Second)
}

// withinAMinute waits for the next minute where this one is about to end: the numbers of each are kept apart.
func (s *scene) withinAMinute() {
	now := time.Now()
	if left := now.Truncate(time.Minute).Add(time.Minute).Sub(now); left < 10*time.Second {
		sleep(s.t.Context(), left)
	}
}

func (s *scene) lockGone(id string) {
	s.t.Helper()
	s.must(s.r.Del(s.t.Context(), "bull:q:"+id+":lock").Err()) // sooner than it would run out
}

func playErrors(s *scene) {
	s.plain(4)

	holds := map[string]*hold{}
	for _, token := range []string{"t1", "t2", "t3", "t4"} {
		holds[token] = s.take(token)
	}

	ctx := s.t.Context()
	run := func(h *hold, token string, want Code) {
		s.t.Helper()

		h.token = token
		err := s.w.exchange.write(h.final(keyCompleted, []byte("1"), nil, nil))

		refused, _ := errors.AsType[*ScriptError](err)
		if want == 0 && err == nil || refused != nil && refused.Code == want {
			return
		}

		s.t.Errorf("job %s, token %s: %v, want code %d", h.job.ID, token, err, want)
	}

	run(holds["t1"], "wrong", CodeLockMismatch)
	s.must(s.r.Del(ctx, "bull:q:2:lock").Err())
	run(holds["t2"], "t2", CodeLockMissing)
	s.must(s.r.LRem(ctx, "bull:q:active", 1, "3").Err())
	run(holds["t3"], "t3", CodeNotInState)
	s.must(s.r.Del(ctx, "bull:q:4").Err())
	run(holds["t4"], "t4", CodeJobMissing)
	run(holds["t1"], "0", 0)

	s.w.opts.LockDuration = time.Minute
	_, err := s.w.extend(ctx, []*hold{holds["t1"]})
	s.must(err)
}

func steerScenes() map[string]func(*scene) {
	return map[string]func(*scene){
		"11": func(s *scene) {
			s.plain(2)
			s.must(s.q.Pause(s.t.Context()))
			s.plain(1)
			s.add(s.q, "a", nil, JobOptions{Priority: 2})
			s.add(s.q, "a", nil, JobOptions{Delay: time.Minute})
		},
		"12": func(s *scene) {
			s.plain(1)
			s.must(s.q.Pause(s.t.Context()))
			s.plain(1)
			s.must(s.q.Resume(s.t.Context()))
		},
		"13": func(s *scene) {
			s.add(s.q, "a", nil, JobOptions{Delay: time.Minute})
			s.must(s.q.Pause(s.t.Context()))
			s.must(s.q.Resume(s.t.Context()))
		},
		"75": func(s *scene) {
			j, err := s.q.Job(s.t.Context(), s.add(s.q, "a", nil, JobOptions{KeepLogs: 2}))
			s.must(err)
			s.must(j.UpdateProgress(s.t.Context(), 42))
			s.must(j.UpdateProgress(s.t.Context(), map[string]int{"p": 1}))
			s.must(s.r.HSet(s.t.Context(), "bull:q:1", "data", `{"n":2}`).Err()) // updateData
			for _, row := range []string{"l1", "l2", "l3"} {
				s.must(j.Log(s.t.Context(), row))
			}
		},
		"78": func(s *scene) {
			ctx := s.t.Context()
			s.plain(3)
			s.add(s.q, "a", nil, JobOptions{Delay: time.Minute})
			s.add(s.q, "a", nil, JobOptions{Priority: 1})
			s.completeNext("t1", 1)
			s.take("t2")

			for _, id := range []string{"1", "2", "3", "4", "5", "none"} {
				if err := s.q.Remove(ctx, id); (id == "2") != errors.Is(err, ErrJobLocked) {
					s.t.Errorf("remove %s: %v", id, err)
				}
			}
		},
		"80": func(s *scene) {
			ctx := s.t.Context()
			s.plain(4)

			for _, token := range []string{"t1", "t2", "t3"} {
				s.completeNext(token, 1)
				sleep(ctx, 2*time.Millisecond) // so that the scores tell their order
			}

			done, err := s.q.Clean(ctx, 0, 2, StateCompleted)
			s.must(err)
			waiting, err := s.q.Clean(ctx, 0, 0, StateWaiting)
			s.must(err)

			if fmt.Sprint(done, waiting) != "[1 2] [4]" {
				s.t.Errorf("cleaned %v and %v", done, waiting)
			}
		},
		"82": func(s *scene) {
			ctx := s.t.Context()
			s.add(s.q, "a", nil, JobOptions{Attempts: 1})
			s.add(s.q, "a", nil, JobOptions{Priority: 3})
			s.failNext("t1", errors.New("x"), OutcomeFailed)
			s.completeNext("t2", 1)
			s.must(s.q.RetryWith(ctx, "1", RetryOptions{ResetAttemptsMade: true}))
			s.must(s.q.Retry(ctx, "2"))
		},
		"84": playStates,
		"103": func(s *scene) {
			ctx := s.t.Context()
			s.plain(2)
			s.take("t1")
			s.must(s.r.Del(ctx, "bull:q:1:lock").Err())
			s.failNext("t2", errors.New("x"), OutcomeFailed)
			s.add(s.q, "a", nil, JobOptions{Delay: time.Minute})

			for _, state := range []State{StateActive, StateDelayed, StateFailed} {
				_, err := s.q.Clean(ctx, 0, 0, state)
				s.must(err)
			}
		},
	}
}

func playStates(s *scene) {
	ctx := s.t.Context()
	s.plain(3)
	s.completeNext("t1", 1)
	s.failNext("t2", errors.New("x"), OutcomeFailed)
	s.take("t")
	s.plain(1)
	s.add(s.q, "a", nil, JobOptions{Delay: time.Minute})
	s.add(s.q, "a", nil, JobOptions{Priority: 2})

	states := map[string]State{
		"1": StateCompleted, "2": StateFailed, "3": StateActive, "4": StateWaiting, "5": StateDelayed, "6": StatePrioritized,
		"99": StateUnknown,
	}
	for id, want := range states {
		if got, err := s.q.State(ctx, id); err != nil || got != want {
			s.t.Errorf("job %s is %s (%v), want %s", id, got, err, want)
		}
	}

	counts, err := s.q.Counts(ctx)
	s.must(err)

	if want := (Counts{Waiting: 1, Active: 1, Delayed: 1, Prioritized: 1, Completed: 1, Failed: 1}); counts != want {
		s.t.Errorf("counts %+v, want %+v", counts, want)
	}
}
