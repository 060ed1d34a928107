package queue

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// hold is a job that this worker has, from its claim to the write of its outcome.
//
//	running --settle--> finishing --> ended
//	   |                    |
//	   +------- lost <------+     by a renewal that found the lock missing (running only), or by our own clock
//
// Once lost, always lost: nothing is written for the job any more.
type hold struct {
	job    *Job
	token  string
	ctx    context.Context // the handler's
	cancel context.CancelCauseFunc
	desk   desk  // the job's
	ended  final // how it ends, once that is known

	asAdded bool     // it was as it was added when it was taken: nothing is known of it but what every job has
	order   int64    // of the jobs that the worker has taken
	chained bool     // its slot may go on with a job that its finish takes
	next    *claimed // that job; set by the finish

	mu        sync.Mutex
	until     time.Time // the lock may be gone from then on: reckoned from before the call that set it
	renewed   time.Time
	finishing bool
	lost      bool
	gone      chan struct{} // closed when lost; nil: nobody has asked for it
	timer     *time.Timer   // fires at until; stopped by end; nil: the renewer has not seen the hold yet, see watch
}

// holds are the jobs that the worker has: after a lost lock the same job can be here twice for a moment.
type holds struct {
	mu  sync.Mutex
	all map[*hold]struct{}
}

// holdTaken is the hold of a job that a claim has answered. bad: its options can't be read.
func (w *Worker) holdTaken(work context.Context, t *takenJob, token string, sent time.Time) (h *hold, bad error) {
	job, bad := t.decode(w.opts.WorkerName)
	h = w.hold(work, job, token, sent)
	h.asAdded = t.asAdded()

	return h, bad
}

// hold registers a taken job: its lock is renewed from now on, and reckoned to end LockDuration after the claim was sent.
func (w *Worker) hold(work context.Context, j *Job, token string, sent time.Time) *hold {
	h := &hold{job: j, token: token, until: sent.Add(w.opts.LockDuration), renewed: sent}
	h.ctx, h.cancel = context.WithCancelCause(continued(work, w.opts.Telemetry, &j.Opts))
	h.desk = desk{line: w.client, scripts: w.scripts, keys: w.keys, token: token, hold: h}
	j.desk = &h.desk

	if !w.started.Load() || w.opts.LockRenewTime > w.opts.LockDuration/2 {
		h.watch() // there is no renewer that would do it, or it might come late
	}

	w.held.mu.Lock()
	defer w.held.mu.Unlock()

	if w.held.all == nil {
		w.held.all = make(map[*hold]struct{})
	}

	w.held.all[h] = struct{}{}

	return h
}

// drop ends a hold and frees what it has.
func (s *holds) drop(h *hold) {
	s.mu.Lock()
	delete(s.all, h)
	s.mu.Unlock()

	h.mu.Lock()
	if h.timer != nil {
		h.timer.Stop()
	}
	h.mu.Unlock()
	h.cancel(nil)
}

// watch sets the timer that gives the job up when its lock must have run out. Most jobs end before the renewer looks for the first time,
// at half of LockRenewTime, and go without.
func (h *hold) watch() {
	h.mu.Lock()
	defer h.mu.Unlock()

	if h.timer == nil {
		h.timer = time.AfterFunc(time.Until(h.until), h.expire)
	}
}

// find is the running hold of a job.
func (s *holds) find(id string) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()

	for h := range s.all {
		if h.job.ID == id && !h.isLost() {
			return h
		}
	}

	return nil
}

// older are the holds that are due for renewal. All are watched from now on.
func (s *holds) older(than time.Duration, now time.Time) []*hold {
	s.mu.Lock()
	defer s.mu.Unlock()

	var due []*hold

	for h := range s.all {
		h.watch()
		h.mu.Lock()
		if !h.lost && now.Sub(h.renewed) >= than {
			due = append(due, h)
		}
		h.mu.Unlock()
	}

	return due
}

func (s *holds) summary(now time.Time) (active int, lowest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()

	first := true

	for h := range s.all {
		h.mu.Lock()
		left := max(h.until.Sub(now), 0)
		h.mu.Unlock()

		if first || left < lowest {
			lowest, first = left, false
		}
	}

	return len(s.all), lowest
}

func (h *hold) isLost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()

	return h.lost
}

// extended notes a renewal that was sent at the given time.
func (h *hold) extended(sent time.Time, by time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.renewed = sent
	h.until = sent.Add(by)

	if h.timer != nil {
		h.timer.Reset(time.Until(h.until))
	}
}

// startFinish: from now on a missing lock may be our own doing.
func (h *hold) startFinish() {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.finishing = true
}

// expire runs when the lock must be reckoned gone by our own clock.
func (h *hold) expire() {
	h.mu.Lock()
	early := time.Now().Before(h.until) // renewed meanwhile
	h.mu.Unlock()

	if !early {
		h.lose()
	}
}

// takenAway follows a renewal that found the lock missing or another's. It reports whether that was news.
func (h *hold) takenAway() bool {
	h.mu.Lock()
	ours := h.finishing || h.lost
	h.mu.Unlock()

	if ours {
		return false
	}

	h.lose()

	return true
}

func (h *hold) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()

	if h.lost {
		return
	}

	h.lost = true

	if h.gone != nil {
		close(h.gone)
	}

	h.cancel(ErrLockLost)
}

// whenLost is closed when the hold is lost.
func (h *hold) whenLost() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()

	if h.gone == nil {
		h.gone = make(chan struct{})

		if h.lost {
			close(h.gone)
		}
	}

	return h.gone
}

// renewLocks renews all locks that are due in one call per tick. It has its own connection and waits for nothing else, so that no job,
// no full pool and no blocked call can make it late. A failed call is repeated soon, many times within a lock's life.
func (w *Worker) renewLocks(ctx context.Context) {
	period := w.opts.LockRenewTime / 2
	again := min(max(w.opts.LockDuration/40, 5*time.Millisecond), time.Second)
	failing := false

	for wait := period; sleep(ctx, wait); {
		began := time.Now()
		err := w.renewDue(ctx, period*3/4)

		switch {
		case err != nil:
			wait = again
			w.watch.LockRenewalFailed(err)

			if !failing && ctx.Err() == nil {
				w.log.Warn("locks not renewed, trying again", slog.Any("error", err))
			}
		default:
			wait = max(period-time.Since(began), time.Millisecond)
		}

		failing = err != nil
	}
}

func (w *Worker) renewDue(ctx context.Context, age time.Duration) error {
	sent := time.Now()

	due := w.held.older(age, sent)
	if len(due) == 0 {
		return nil
	}

	lost, err := w.extend(ctx, due)
	if err != nil {
		return err
	}

	missing := 0

	for _, h := range due {
		if !lost[h.job.ID] {
			h.extended(sent, w.opts.LockDuration)
			continue
		}

		if h.takenAway() {
			missing++
			w.log.Error("lock lost", slog.String("job_id", h.job.ID))
		}
	}

	w.watch.LockExtended(len(due)-len(lost), missing)

	return nil
}

// extend answers the ids whose lock is gone.
func (w *Worker) extend(ctx context.Context, due []*hold) (map[string]bool, error) {
	args := make([]any, 0, 1+2*len(due))
	args = append(args, w.opts.LockDuration.Milliseconds())

	for _, h := range due {
		args = append(args, h.job.ID, h.token)
	}

	reply, err := w.scripts.extend.run(ctx, w.renew, w.keys, args...)
	if err != nil {
		return nil, err
	}

	ids, _ := reply.([]any)
	lost := make(map[string]bool, len(ids))

	for _, id := range ids {
		if s, ok := id.(string); ok {
			lost[s] = true
		}
	}

	return lost, nil
}
