package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// This file is how the fetcher waits while the queue is empty.

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
	bound, cancel := context.WithTimeout(ctx, wait+blockMargin)
	defer cancel()

	reply, err := f.w.block.get().Do(bound, f.pop(wait)...).Slice()
	if errors.Is(err, redis.Nil) {
		return 0, false, nil
	}

	if err != nil {
		return 0, false, f.silenced(err)
	}

	if len(reply) < 3 {
		return 0, false, fmt.Errorf("wait for the marker: %w", errBadReply)
	}

	score, _ := reply[2].(string)

	return int64(number(score)), true, nil // a delay marker's score may have a fraction
}

func (f *fetcher) pop(wait time.Duration) []any {
	return []any{"BZPOPMIN", f.w.keys.of(keyMarker), strconv.FormatFloat(wait.Seconds(), 'f', 3, 64)}
}

// silenced draws the conclusions from an error of the blocking connection.
func (f *fetcher) silenced(err error) error {
	if letDown(err) {
		// What has silenced this connection has probably silenced the others; finding out costs a timeout each.
		f.w.claims.renew()
		f.w.client.renew()
	}

	return fmt.Errorf("wait for the marker: %w", err)
}

// minArmed is the shortest wait that is worth a claim at its end.
const minArmed = 500 * time.Millisecond

// armed is how long to wait with the claim behind the wait; 0: not so. It needs slots that are the worker's own, a claim that the server
// can put behind the wait on one connection, and a lock that outlasts the wait by far, since its age counts from when the claim was sent.
func (f *fetcher) armed() time.Duration {
	if !f.drained || !f.w.chains() || f.w.base.IsClusterMode || f.w.brake.on() || f.w.doubts.any() {
		return 0
	}

	wait := min(f.blockTime(time.Now()), f.w.opts.LockRenewTime/2-blockMargin)
	if wait < minArmed {
		return 0
	}

	return wait
}

// awaitArmed waits for the marker and takes the next job in the same step: the server does the claim as soon as the wait is over, so
// that a job that comes to an idle worker costs one way instead of three. A wait that ends for nothing ends with a claim for nothing,
// which is the look at due jobs that a worker owes anyway.
func (f *fetcher) awaitArmed(ctx, work context.Context, wait time.Duration) error {
	f.w.state.set(func(s *WorkerStatus) { s.Blocked = true })
	defer f.w.state.set(func(s *WorkerStatus) { s.Blocked = false })

	// The client first: who forbids claims after the looks below interrupts this one.
	c := f.w.block.get()

	if f.w.brake.on() {
		return nil
	}

	slot, ok := f.w.gate.TryClaim()
	if !ok {
		return f.giveWay(ctx)
	}

	token, sent := f.w.newToken(), time.Now()

	reply, err := f.popAndTake(ctx, c, wait, token)
	if reply == nil {
		return f.unarmed(ctx, work, token, slot, err)
	}

	f.begin(ctx, work, reply, token, sent, []Slot{slot})

	return nil
}

// unarmed follows an armed wait without an answer.
func (f *fetcher) unarmed(ctx, work context.Context, token string, slot Slot, err error) error {
	f.drained = false

	if err == nil {
		slot.Release()
		return nil
	}

	if !uncertain(err) || !f.w.interrupted.Swap(false) {
		slot.Release()

		if uncertain(err) {
			f.w.doubts.add(token)
		}

		return f.silenced(err)
	}

	// Cut by ourselves. There may be no slot and no claim for long now, so that what was under way goes back at once.
	f.popped = true // maybe, with the lost answer

	found, err := f.reclaim(endedContext(), work, token, slot)
	if !found {
		f.w.doubts.add(token)
	}

	if err != nil {
		return err
	}

	return f.rewake(ctx)
}

// popAndTake sends both. No answer and no error: the server does not know the script yet, the next claim teaches it.
func (f *fetcher) popAndTake(ctx context.Context, c redis.UniversalClient, wait time.Duration, token string) (*taken, error) {
	bound, cancel := context.WithTimeout(ctx, wait+blockMargin)
	defer cancel()

	both := c.Pipeline()
	pop := both.Do(bound, f.pop(wait)...)
	// The time is the server's: nobody knows now when the claim will be made.
	claim := both.EvalSha(bound, f.w.scripts.take.sha, scriptKeys(c, f.w.keys), f.takeArgs("", token, 1)...)

	_, _ = both.Exec(bound) // each command has its own error

	reply, err := claim.Result()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		f.popped = pop.Err() == nil
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	got, err := parseTaken(reply)
	if refused := pop.Err(); err == nil && len(got.jobs) == 0 && refused != nil && !errors.Is(refused, redis.Nil) {
		return nil, refused // there was no wait: the next one is not to follow at once
	}

	return got, err
}
