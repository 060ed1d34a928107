package queue

import (
	"context"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"time"
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

// fetcher is the goroutine of a worker that takes jobs for free slots; a slot of the worker's own whose job ends goes on with one that
// comes with the finish (exchange.go). One turn is:
//
//	capacity may be free (no slot taken)
//	  -> the marker wakes us, unless the last claim found something (no slot taken)
//	  -> slot taken -> claim: job -> the slot is its own; none -> slot given back
//	  -> no slot: another door was faster; the wake-up goes back to the queue, and we wait for capacity again
//
// So an idle worker holds no slot, a claimed job never waits for one, and no wake-up is lost. Where the slots are the worker's own nobody
// misses one that is held, and the claim is sent together with the wait for the marker; see awaitArmed.
type fetcher struct {
	w       *Worker
	want    int       // slots of the next claim; see slots
	drained bool      // the last claim found nothing: block before the next one
	due     int64     // ms at which the first delayed job is due, 0 = not known
	popped  bool      // we popped a wake-up that no claim has followed yet
	limited time.Time // the rate limit forbids claims until then
	open    []doubt   // claims whose answer was lost, this fetcher's and those made by finishes
	trouble *backoff
	refused *backoff
	failing bool // Redis fails: log changes only
}

// claimed is a job that is ours, before its hold is made.
type claimed struct {
	job   *takenJob
	token string
	sent  time.Time
	order int64 // of all that the worker has taken
	back  bool  // the worker was stopped meanwhile: nothing has begun yet, and the job goes back
}

// claimsOf are the jobs of a take, in its order.
func (w *Worker) claimsOf(jobs []takenJob, token string, sent time.Time) []claimed {
	all, n := make([]claimed, len(jobs)), int64(len(jobs))
	first := w.taken.Add(n) - n

	for i := range all {
		all[i] = claimed{job: &jobs[i], token: token, sent: sent, order: first + int64(i)}
	}

	return all
}

// doubt is a claim that may have made jobs active under our token.
type doubt struct {
	token   string
	checked time.Time // first look that found nothing; zero: none yet
}

// doubts are those that the fetcher has not seen yet. While any is open no finish takes jobs, so that slots come free for what is found.
type doubts struct {
	mu   sync.Mutex
	list []doubt
	n    int // with those that the fetcher looks into
}

func (d *doubts) add(token string) {
	d.mu.Lock()
	defer d.mu.Unlock()

	d.list = append(d.list, doubt{token: token})
	d.n++
}

func (d *doubts) any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()

	return d.n > 0
}

// fetch hands the new ones over.
func (d *doubts) fetch() []doubt {
	d.mu.Lock()
	defer d.mu.Unlock()

	list := d.list
	d.list = nil

	return list
}

func (d *doubts) settled() {
	d.mu.Lock()
	defer d.mu.Unlock()

	d.n--
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
		want:    1,
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

	if wait := f.armed(); wait > 0 {
		return f.awaitArmed(ctx, work, wait)
	}

	if f.drained {
		if err := f.awaitMarker(ctx); err != nil {
			f.drained = false // a wake-up may have been popped with the lost answer
			if !f.w.interrupted.Swap(false) {
				return err
			}

			f.popped = true
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

	if err := f.runRewake(ctx, callTimeout); err != nil {
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

// claim asks for the next jobs while holding a slot for each.
func (f *fetcher) claim(ctx, work context.Context, slot Slot) error {
	slots, token, sent := f.slots(slot), f.w.newToken(), time.Now()

	reply, err := f.take(ctx, token, len(slots))
	if err != nil {
		releaseAll(slots)

		f.drained = false
		if uncertain(err) {
			f.w.doubts.add(token)
		}

		return err
	}

	f.begin(ctx, work, reply, token, sent, slots)

	return nil
}

// begin starts what a claim has taken, a job in each slot.
func (f *fetcher) begin(ctx, work context.Context, reply *taken, token string, sent time.Time, slots []Slot) {
	n := min(len(reply.jobs), len(slots))
	claims := f.w.claimsOf(reply.jobs[:n], token, sent)

	for i := range claims {
		f.start(ctx, work, &claims[i], slots[i])
	}

	if n > 0 {
		runtime.Gosched() // the handlers first, then our books and the next wait
	}

	f.succeed(reply)
	releaseAll(slots[n:])
	f.proceed(reply)
}

// slots adds further slots to the first one. A gate of the caller's is asked for one at a time, since what we hold for the time of a claim
// the others miss. Of our own, claims that find all that they ask for are followed by larger ones; after an idle time a single job costs
// no more than one, and a burst spreads over the fleet.
func (f *fetcher) slots(first Slot) []Slot {
	all := []Slot{first}
	if !f.w.chains() {
		return all
	}

	for len(all) < f.want {
		s, ok := f.w.gate.TryClaim()
		if !ok {
			break
		}

		all = append(all, s)
	}

	return all
}

func releaseAll(slots []Slot) {
	for _, s := range slots {
		s.Release()
	}
}

func (f *fetcher) take(ctx context.Context, token string, most int) (*taken, error) {
	// A claim that has been sent is not abandoned for a drain: its job would be active without a worker.
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()

	reply, err := f.w.scripts.take.run(bound, f.w.claims, f.w.keys, f.takeArgs(time.Now().UnixMilli(), token, most)...)
	if err != nil {
		return nil, err
	}

	return parseTaken(reply)
}

// takeArgs are the arguments of take.lua.
func (f *fetcher) takeArgs(now any, token string, most int) []any {
	o := &f.w.opts
	limitMax, limitDuration := o.Limiter.args()

	return []any{now, token, o.LockDuration.Milliseconds(), o.WorkerName, limitMax, limitDuration, most}
}

// args are those of a script; none is "".
func (l *Limiter) args() (most, duration string) {
	if l == nil {
		return "", ""
	}

	return strconv.Itoa(l.Max), formatMillis(toMillis(l.Duration))
}

// claimOne is a claim without slots, for those who pull; nil if there is no job.
func (f *fetcher) claimOne(ctx context.Context) (h *hold, bad, err error) {
	token, sent := f.w.newToken(), time.Now()

	reply, err := f.take(ctx, token, 1)
	if err != nil {
		f.drained = false
		return nil, nil, err
	}

	f.succeed(reply)
	f.proceed(reply)

	if len(reply.jobs) == 0 {
		return nil, nil, nil
	}

	h, bad = f.w.holdTaken(context.WithoutCancel(ctx), &reply.jobs[0], token, sent)

	return h, bad, nil
}

// proceed draws the conclusions from a claim's end.
func (f *fetcher) proceed(reply *taken) {
	if reply.end == tookAll {
		f.drained, f.popped, f.due = false, false, 0
		f.want = min(2*f.want, exchangeMost)

		return
	}

	f.want = 1
	f.idle(reply)
}

// idle follows a claim that found less than it asked for.
func (f *fetcher) idle(reply *taken) {
	f.popped = false
	f.due = 0

	if reply.end != tookHeld {
		f.w.heldBack.Store(false)
	}

	switch {
	case reply.end == tookHeld && !f.w.heldBack.Swap(true):
		// Ends of our jobs wake us from now on; one that came between this claim and now did not, so look once more.
		f.drained = false
	case reply.end == tookLimited:
		f.drained = false
		f.limited = time.Now().Add(min(reply.wait, maxLimitPause))
	default:
		f.drained = true
		f.due = reply.due
	}
}

// start hands a taken job and its slot to a goroutine, which ends when the outcome has been written and no other job follows in the slot.
func (f *fetcher) start(ctx, work context.Context, c *claimed, slot Slot) {
	c.back = ctx.Err() != nil // stopped while the claim was under way
	if !c.back {
		slot.Confirm()
	}

	f.w.jobs.Go(func() { f.w.runSlot(work, c, slot) })
}

// settleDoubts looks for jobs that a claim made active although its answer never came, and runs them. A late command may still be on its
// way when Redis is back, so each doubt is looked into twice, a second apart. If no slot is free, stalled handling has the job.
func (f *fetcher) settleDoubts(ctx, work context.Context) error {
	f.open = append(f.open, f.w.doubts.fetch()...)

	for i := 0; i < len(f.open); {
		d := &f.open[i]
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

		f.open = append(f.open[:i], f.open[i+1:]...)
		f.w.doubts.settled()
	}

	return nil
}

// reclaim starts the jobs of a doubtful claim, the first in the slot. Jobs for which there is no slot go back to the queue.
func (f *fetcher) reclaim(ctx, work context.Context, token string, slot Slot) (bool, error) {
	sent := time.Now()

	jobs, err := f.findClaimed(ctx, token)
	if err != nil || len(jobs) == 0 {
		slot.Release()
		return false, err
	}

	for i := range jobs {
		f.w.log.Info("found the job of a claim whose answer was lost", slog.String("job_id", jobs[i].id))

		c := &claimed{job: &jobs[i], token: token, sent: sent}
		if i == 0 {
			f.start(ctx, work, c, slot)
			continue
		}

		if more, ok := f.w.gate.TryClaim(); ok {
			f.start(ctx, work, c, more)
			continue
		}

		c.back = true
		f.w.jobs.Go(func() { f.w.runClaimed(work, c) }) // ends when the job has been given back
	}

	return true, nil
}

func (f *fetcher) findClaimed(ctx context.Context, token string) ([]takenJob, error) {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()

	reply, err := f.w.scripts.reclaim.run(bound, f.w.claims, f.w.keys, token, f.w.opts.LockDuration.Milliseconds())
	if err != nil {
		return nil, err
	}

	return parseJobs(reply, "")
}

// leave is the fetcher's last act: what it popped and can't follow wakes others, and what it may have claimed goes back. It does not
// wait for a Redis that is gone: stalled handling and the others' block timeouts do the same later.
func (f *fetcher) leave(work context.Context) {
	if f.failing {
		return
	}

	f.giveBackDoubtful(work)

	// Also without a popped marker of our own: the interrupted block may have popped one whose answer we did not see.
	if err := f.runRewake(work, leaveTimeout); err != nil {
		f.w.log.Debug("wake-up not put back", slog.Any("error", err))
	}
}

// giveBackDoubtful puts back what claims without an answer may have taken.
func (f *fetcher) giveBackDoubtful(work context.Context) {
	f.open = append(f.open, f.w.doubts.fetch()...)

	for _, d := range f.open {
		if slot, ok := f.w.gate.TryClaim(); ok {
			_, _ = f.reclaim(endedContext(), work, d.token, slot) // else stalled handling has it
		}
	}

	f.open = nil
}

// endedContext is one that makes start put a job back.
func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()

	return ctx
}

func (f *fetcher) succeed(reply *taken) {
	f.trouble.reset()

	if f.failing {
		f.failing = false
		f.w.log.Info("Redis is back, fetching goes on")
	}

	f.w.noteTake(reply)
}

// noteTake tells of an answered claim.
func (w *Worker) noteTake(reply *taken) {
	if reply.gone > 0 {
		w.log.Warn("threw away ids of jobs that do not exist", slog.Int("count", reply.gone))
	}

	w.state.set(func(s *WorkerStatus) { s.LastFetch = time.Now() })
	w.watch.FetchDone(len(reply.jobs) > 0)
}

// newToken is the token of one claim; the jobs that it takes share it.
func (w *Worker) newToken() string { return w.id + ":" + strconv.FormatInt(w.claimed.Add(1)-1, 10) }

func (f *fetcher) fail(ctx context.Context, err error) {
	f.w.watch.FetchFailed(err)

	if !f.failing {
		f.failing = true
		f.w.log.Warn("fetching fails, trying again", slog.Any("error", err))
	}

	f.trouble.wait(ctx)
}
