package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	fetchPauseFirst = 50 * time.Millisecond
	fetchPauseMost  = 2 * time.Second
	maxLimitPause   = 30 * time.Second
	refusalFirst    = time.Millisecond
	refusalMost     = 100 * time.Millisecond
	holdOffFactor   = 20 // of the pause after a refusal
	leaveTimeout    = time.Second
)

// fetcher is the only goroutine of a worker that takes jobs. One turn is:
//
//	capacity may be free (no slot taken)
//	  -> the marker wakes us, unless the last claim found something (no slot taken)
//	  -> slot taken -> claim: job -> the slot is its own; none -> slot given back
//	  -> no slot: another door was faster; the wake-up goes back to the queue, and we wait for capacity again
//
// So an idle worker holds no slot, a claimed job never waits for one, and no wake-up is lost.
type fetcher struct {
	w       *Worker
	serial  int       // of the next claim; makes its token
	drained bool      // the last claim found nothing: block before the next one
	due     int64     // ms at which the first delayed job is due, 0 = not known
	popped  bool      // we popped a wake-up that no claim has followed yet
	limited time.Time // the rate limit forbids claims until then
	doubts  []doubt   // claims whose answer was lost
	trouble *backoff
	refused *backoff
	failing bool // Redis fails: log changes only
}

// doubt is a claim that may have made a job active under our token.
type doubt struct {
	token   string
	checked time.Time // first look that found nothing; zero: none yet
}

// fetchState is what Status tells of the fetcher, who writes it.
type fetchState struct {
	mu sync.Mutex
	s  WorkerStatus
}

func (f *fetchState) set(change func(*WorkerStatus)) {
	f.mu.Lock()
	defer f.mu.Unlock()

	change(&f.s)
}

func (f *fetchState) snapshot() WorkerStatus {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.s
}

func newFetcher(w *Worker) *fetcher {
	return &fetcher{
		w:       w,
		trouble: newBackoff(fetchPauseFirst, fetchPauseMost),
		refused: newBackoff(refusalFirst, refusalMost),
	}
}

// run fetches until ctx ends. Jobs live under work, which ends only when the worker is stopped hard.
func (f *fetcher) run(ctx, work context.Context) {
	f.introduce(ctx)

	for ctx.Err() == nil {
		if err := f.turn(ctx, work); err != nil && ctx.Err() == nil {
			f.fail(ctx, err)
		}
	}

	f.leave(work)
}

// introduce writes the queue's settings that tools look for, without touching what others have written. Adds do it too, so a failure
// costs nothing.
func (f *fetcher) introduce(ctx context.Context) {
	c := f.w.claims.get()

	_ = c.HSetNX(ctx, f.w.keys.of(keyMeta), "opts.maxLenEvents", "10000").Err()
}

func (f *fetcher) turn(ctx, work context.Context) error {
	if err := f.awaitCapacity(ctx); err != nil {
		return err
	}

	if err := f.settleDoubts(ctx, work); err != nil {
		return err
	}

	if !sleep(ctx, time.Until(f.limited)) || !f.w.brake.wait(ctx) {
		return nil
	}

	if f.drained {
		if err := f.awaitMarker(ctx); err != nil {
			f.drained = false // a wake-up may have been popped with the lost answer
			if !f.w.brake.paused() {
				return err
			}

			f.popped = true // the pause has cut the connection
		}
	}

	if f.w.brake.on() {
		return f.giveWay(ctx)
	}

	if before := f.w.opts.BeforeClaim; before != nil {
		if refusal := before(ctx); refusal != nil {
			return f.holdOff(ctx, refusal) // no fault of the queue: it waits
		}
	}

	if ctx.Err() != nil {
		return nil //nolint:nilerr // ended, which is no fault
	}

	slot, ok := f.w.gate.TryClaim()
	if !ok {
		return f.giveWay(ctx)
	}

	f.refused.reset()

	return f.claim(ctx, work, slot)
}

func (f *fetcher) awaitCapacity(ctx context.Context) error {
	f.w.state.set(func(s *WorkerStatus) { s.AwaitingSlot = true })
	defer f.w.state.set(func(s *WorkerStatus) { s.AwaitingSlot = false })

	return f.w.gate.Wait(ctx)
}

// awaitMarker blocks until a job may be there or is due, for at most the drain delay; see blockTime.
func (f *fetcher) awaitMarker(ctx context.Context) error {
	f.w.state.set(func(s *WorkerStatus) { s.Blocked = true })
	defer f.w.state.set(func(s *WorkerStatus) { s.Blocked = false })

	for ctx.Err() == nil {
		wait := f.blockTime(time.Now())
		if wait <= 0 {
			return nil
		}

		due, popped, err := f.popMarker(ctx, wait)
		if err != nil || !popped {
			return err
		}

		if due <= time.Now().UnixMilli() {
			f.popped = true
			return nil
		}

		// The delay marker is gone for everybody: waking at that time is our duty now.
		if f.due == 0 || due < f.due {
			f.due = due
		}
	}

	return nil
}

// blockTime is how long to block: until the first delayed job is due, but at most maxBlock; the drain delay if none is known.
func (f *fetcher) blockTime(now time.Time) time.Duration {
	if f.due == 0 {
		return max(f.w.opts.DrainDelay, minBlock)
	}

	left := time.UnixMilli(f.due).Sub(now)
	if left <= 0 {
		return 0
	}

	return min(max(left, minBlock), maxBlock)
}

// popMarker is one BZPOPMIN on the named connection. Its deadline is a little longer than the block, so that a half-open connection is
// noticed.
func (f *fetcher) popMarker(ctx context.Context, wait time.Duration) (due int64, popped bool, err error) {
	c := f.w.block.get()

	bound, cancel := context.WithTimeout(ctx, wait+blockMargin)
	defer cancel()

	timeout := strconv.FormatFloat(wait.Seconds(), 'f', 3, 64)

	reply, err := c.Do(bound, "BZPOPMIN", f.w.keys.of(keyMarker), timeout).Slice()
	if errors.Is(err, redis.Nil) {
		return 0, false, nil
	}

	if err != nil {
		if letDown(err) {
			// What has silenced this connection has probably silenced the others; finding out costs a timeout each.
			f.w.claims.renew()
			f.w.client.renew()
		}

		return 0, false, fmt.Errorf("wait for the marker: %w", err)
	}

	if len(reply) < 3 {
		return 0, false, fmt.Errorf("wait for the marker: %w", errBadReply)
	}

	score, _ := reply[2].(string)

	return int64(number(score)), true, nil // a delay marker's score may have a fraction
}

// holdOff follows an error of BeforeClaim: the wake-up is for others, and we try again later.
func (f *fetcher) holdOff(ctx context.Context, cause error) error {
	f.w.log.Warn("not ready to claim a job", slog.Any("error", cause))

	if err := f.rewake(ctx); err != nil {
		return err
	}

	sleep(ctx, f.refused.pause()*holdOffFactor)

	return nil
}

// giveWay follows a claim that found no slot.
func (f *fetcher) giveWay(ctx context.Context) error {
	if err := f.rewake(ctx); err != nil {
		return err
	}

	f.drained = false
	// The gate said that a slot may be free and then had none: look again a little later, not in a spin.
	f.refused.wait(ctx)

	return nil
}

// rewake puts the wake-up back that we popped and can't follow. If that fails we still owe it, and the next turn's claim follows it.
func (f *fetcher) rewake(ctx context.Context) error {
	if !f.popped {
		return nil
	}

	if err := f.runRewake(ctx, commandTimeout); err != nil {
		f.drained = false
		return err
	}

	f.popped = false

	return nil
}

func (f *fetcher) runRewake(ctx context.Context, timeout time.Duration) error {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()

	if _, err := f.w.scripts.rewake.run(bound, f.w.claims, f.w.keys); err != nil {
		return err
	}

	return nil
}

// claim asks for the next job while holding a slot.
func (f *fetcher) claim(ctx, work context.Context, slot Slot) error {
	token := f.w.id + ":" + strconv.Itoa(f.serial)
	f.serial++
	sent := time.Now()

	reply, err := f.take(ctx, token)
	if err != nil {
		slot.Release()

		f.drained = false
		if uncertain(err) {
			f.doubts = append(f.doubts, doubt{token: token})
		}

		return err
	}

	f.succeed(reply)

	if reply.kind != "job" {
		slot.Release()
		f.idle(reply)

		return nil
	}

	f.drained, f.popped, f.due = false, false, 0
	f.start(ctx, work, reply, token, sent, slot)

	return nil
}

func (f *fetcher) take(ctx context.Context, token string) (*taken, error) {
	// A claim that has been sent is not abandoned for a drain: its job would be active without a worker.
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandTimeout)
	defer cancel()

	o := &f.w.opts

	var limitMax, limitDuration string
	if l := o.Limiter; l != nil {
		limitMax, limitDuration = strconv.Itoa(l.Max), formatMillis(toMillis(l.Duration))
	}

	reply, err := f.w.scripts.take.run(bound, f.w.claims, f.w.keys,
		time.Now().UnixMilli(), token, o.LockDuration.Milliseconds(), o.WorkerName, limitMax, limitDuration)
	if err != nil {
		return nil, err
	}

	return parseTaken(reply)
}

// claimOne is a claim without slots, for those who pull; nil if there is no job.
func (f *fetcher) claimOne(ctx context.Context) (h *hold, bad, err error) {
	token := f.w.id + ":" + strconv.Itoa(f.serial)
	f.serial++
	sent := time.Now()

	reply, err := f.take(ctx, token)
	if err != nil {
		f.drained = false
		return nil, nil, err
	}

	f.succeed(reply)

	if reply.kind != "job" {
		f.idle(reply)
		return nil, nil, nil
	}

	f.drained, f.popped, f.due = false, false, 0
	job, bad := decodeJob(reply.id, reply.fields)

	return f.w.hold(context.WithoutCancel(ctx), job, token, sent), bad, nil
}

// idle follows a claim that found nothing.
func (f *fetcher) idle(reply *taken) {
	f.popped = false
	f.due = 0

	if reply.kind != "held" {
		f.w.heldBack.Store(false)
	}

	switch {
	case reply.kind == "held" && !f.w.heldBack.Swap(true):
		// Ends of our jobs wake us from now on; one that came between this claim and now did not, so look once more.
		f.drained = false
	case reply.kind == "limited":
		f.drained = false
		f.limited = time.Now().Add(min(reply.wait, maxLimitPause))
	default:
		f.drained = true
		f.due = reply.due
	}
}

// start hands a taken job to its goroutine, which ends when the outcome has been written.
func (f *fetcher) start(ctx, work context.Context, reply *taken, token string, sent time.Time, slot Slot) {
	job, err := decodeJob(reply.id, reply.fields)
	h := f.w.hold(work, job, token, sent)

	if ctx.Err() != nil {
		// Stopped while the claim was under way: nothing has begun yet, so nobody is told of an end.
		f.w.jobs.Go(func() {
			defer slot.Release()
			f.w.putBack(h)
			f.w.held.drop(h)
		})

		return
	}

	slot.Confirm()
	f.w.jobs.Go(func() {
		defer slot.Release()
		f.w.execute(h, err)
	})
}

// settleDoubts looks for jobs that a claim made active although its answer never came, and runs them. A late command may still be on its
// way when Redis is back, so each doubt is looked into twice, a second apart. If no slot is free, stalled handling has the job.
func (f *fetcher) settleDoubts(ctx, work context.Context) error {
	for i := 0; i < len(f.doubts); {
		d := &f.doubts[i]
		if !d.checked.IsZero() && time.Since(d.checked) < time.Second {
			i++
			continue
		}

		slot, ok := f.w.gate.TryClaim()
		if !ok {
			return nil
		}

		found, err := f.reclaim(ctx, work, d.token, slot)
		if err != nil {
			return err
		}

		if !found && d.checked.IsZero() {
			d.checked = time.Now()
			i++

			continue
		}

		f.doubts = append(f.doubts[:i], f.doubts[i+1:]...)
	}

	return nil
}

func (f *fetcher) reclaim(ctx, work context.Context, token string, slot Slot) (bool, error) {
	sent := time.Now()

	reply, err := f.findClaimed(ctx, token)
	if err != nil || reply == nil {
		slot.Release()
		return false, err
	}

	f.w.log.Info("found the job of a claim whose answer was lost", slog.String("job_id", reply.id))
	f.start(ctx, work, reply, token, sent, slot)

	return true, nil
}

func (f *fetcher) findClaimed(ctx context.Context, token string) (*taken, error) {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandTimeout)
	defer cancel()

	reply, err := f.w.scripts.reclaim.run(bound, f.w.claims, f.w.keys, token, f.w.opts.LockDuration.Milliseconds())
	if err != nil {
		return nil, err
	}

	parts, _ := reply.([]any)
	if len(parts) < 2 {
		return nil, nil
	}

	t := &taken{kind: "job"}
	t.setJob(parts)

	return t, nil
}

// leave is the fetcher's last act: what it popped and can't follow wakes others, and what it may have claimed goes back. It does not
// wait for a Redis that is gone: stalled handling and the others' block timeouts do the same later.
func (f *fetcher) leave(work context.Context) {
	if f.failing {
		return
	}

	for _, d := range f.doubts {
		if slot, ok := f.w.gate.TryClaim(); ok {
			// The ended context makes start put the job back.
			ended, cancel := context.WithCancel(context.WithoutCancel(work))
			cancel()

			_, _ = f.reclaim(ended, work, d.token, slot) // else stalled handling has it
		}
	}

	// Also without a popped marker of our own: the interrupted block may have popped one whose answer we did not see.
	if err := f.runRewake(work, leaveTimeout); err != nil {
		f.w.log.Debug("wake-up not put back", slog.Any("error", err))
	}
}

func (f *fetcher) succeed(reply *taken) {
	f.trouble.reset()

	if f.failing {
		f.failing = false
		f.w.log.Info("Redis is back, fetching goes on")
	}

	if reply.gone > 0 {
		f.w.log.Warn("threw away ids of jobs that do not exist", slog.Int("count", reply.gone))
	}

	f.w.state.set(func(s *WorkerStatus) { s.LastFetch = time.Now() })
	f.w.watch.FetchDone(reply.kind == "job")
}

func (f *fetcher) fail(ctx context.Context, err error) {
	f.w.watch.FetchFailed(err)

	if !f.failing {
		f.failing = true
		f.w.log.Warn("fetching fails, trying again", slog.Any("error", err))
	}

	f.trouble.wait(ctx)
}
