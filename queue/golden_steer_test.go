package queue

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// moreSteerScenes are those of bulk operations, edits and limits.
func moreSteerScenes() map[string]func(*scene) {
	return map[string]func(*scene){
		"02":  func(s *scene) { s.must(s.q.SetMaxEvents(s.t.Context(), 500)) },
		"22":  playManualLimit,
		"77":  playPriorities,
		"81":  playObliterate,
		"83":  playBulkMoves,
		"87":  func(s *scene) { s.must(s.q.PublishEvent(s.t.Context(), "my", 0, "foo", "bar")) },
		"110": playRetryChildren,
		"89": func(s *scene) {
			s.add(s.q, "a", nil, JobOptions{})
			s.add(s.q, "b", nil, JobOptions{})
			s.expect(s.w.putBack(s.take("t1")), OutcomePutBack)
		},
		"108": playTelemetry,
		"91": func(s *scene) {
			s.add(s.q, "a", nil, JobOptions{
				Attempts: 2, Backoff: &Backoff{Type: "fixed", Delay: 20 * time.Second}, Telemetry: "ctx0",
			})
			s.failNext("t1", errors.New("x"), OutcomeRetried)
		},
	}
}

func playManualLimit(s *scene) {
	s.with(func(o *WorkerOptions) { o.Limiter = &Limiter{Max: 1, Duration: 500 * time.Millisecond} })
	s.add(s.q, "a", nil, JobOptions{})
	s.add(s.q, "b", nil, JobOptions{Priority: 4})

	h := s.take("t1")
	s.expect(s.w.conclude(h, nil, RateLimitFor(20*time.Second, nil)), OutcomeRateLimited)
}

// The observed telemetry object knows one context only, that of constantTrace.
func playTelemetry(s *scene) {
	o := s.options("q")
	o.Telemetry = constantTrace{}

	q, err := NewQueue(o)
	s.must(err)
	s.t.Cleanup(func() { _ = q.Close() })

	s.with(func(o *WorkerOptions) { o.Telemetry = constantTrace{} })
	s.add(q, "a", nil, JobOptions{Attempts: 2, Backoff: &Backoff{Type: "fixed", Delay: 20 * time.Second}})
	s.failNext("t1", errors.New("x"), OutcomeRetried)
}

func playPriorities(s *scene) {
	ctx := s.t.Context()
	s.plain(3)
	s.must(s.q.ChangePriority(ctx, "1", 5, false))
	s.must(s.q.ChangePriority(ctx, "2", 5, true))
	s.add(s.q, "a", nil, JobOptions{Priority: 7})
	s.must(s.q.ChangePriority(ctx, "4", 0, false))
	s.must(s.q.ChangePriority(ctx, "3", 0, true))

	if err := s.q.ChangePriority(ctx, "none", 1, false); !errors.Is(err, ErrJobNotFound) {
		s.t.Errorf("a job that does not exist: %v", err)
	}
}

func playObliterate(s *scene) {
	ctx := s.t.Context()
	s.plain(4)
	s.add(s.q, "a", nil, JobOptions{Priority: 2})
	s.add(s.q, "a", nil, JobOptions{Delay: time.Minute, Deduplication: &Deduplication{ID: "d"}})
	s.completeNext("t1", 1)
	s.failNext("t2", errors.New("x"), OutcomeFailed)
	s.take("t3")

	if err := s.q.Obliterate(ctx, false); !errors.Is(err, ErrActiveJobs) {
		s.t.Errorf("got %v, want %v", err, ErrActiveJobs)
	}

	s.must(s.q.Obliterate(ctx, true))
}

func playBulkMoves(s *scene) {
	ctx := s.t.Context()
	s.plain(2)
	s.failNext("t1", errors.New("x"), OutcomeFailed)
	s.failNext("t2", errors.New("x"), OutcomeFailed)

	retried, err := s.q.RetryAll(ctx, StateFailed, time.Time{})
	s.must(err)
	s.add(s.q, "a", nil, JobOptions{Delay: time.Minute})
	s.add(s.q, "a", nil, JobOptions{Delay: time.Minute, Priority: 2})

	promoted, err := s.q.PromoteAll(ctx)
	s.must(err)

	if retried != 2 || promoted != 2 {
		s.t.Errorf("retried %d and promoted %d, want 2 and 2", retried, promoted)
	}
}

func playRetryChildren(s *scene) {
	cq, _ := s.family(func(int) JobOptions { return JobOptions{IgnoreDependencyOnFailure: true} }, "C1", "C2")
	s.endChild(cq, func(h *hold) Outcome { return cq.fail(h, errors.New("bad")) }, OutcomeFailed)

	_, err := s.queue("cq").RetryAll(s.t.Context(), StateFailed, time.Time{})
	s.must(err)
}

// The golden file of refused options is about messages; ours are other ones, and the negative priority that Node takes is refused too.
func TestBadOptionsAreRefused(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")

	for name, o := range map[string]JobOptions{
		"priority above":      {Priority: MaxPriority + 1},
		"priority below":      {Priority: -1},
		"two failure options": {FailParentOnFailure: true, IgnoreDependencyOnFailure: true},
		"no dedup id":         {Deduplication: &Deduplication{}},
		"too big":             {SizeLimit: 1},
		"jitter":              {Backoff: &Backoff{Type: "fixed", Jitter: 2}},
	} {
		if _, err := q.Add(t.Context(), "a", nil, o); !errors.Is(err, ErrBadOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}

	if keys := fmt.Sprint(k.r.Keys(t.Context(), "*").Val()); keys != "[]" {
		t.Errorf("something was written: %s", keys)
	}
}
