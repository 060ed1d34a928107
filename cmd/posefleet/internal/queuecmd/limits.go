package queuecmd

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/posefleet/posefleet/queue"
)

// limits is the document of Limits; 0 is no limit.
type limits struct {
	Concurrency int   `json:"concurrency"`
	RateMax     int   `json:"rateMax"`
	RateMs      int64 `json:"rateDurationMs"`
	HeldMs      int64 `json:"heldForMs"` // how long nothing may be started
}

// Limits shows what bounds all workers of the queue together.
func (d *Desk) Limits(ctx context.Context) error {
	concurrency, err := d.Queue.GlobalConcurrency(ctx)
	if err != nil {
		return err
	}

	rate, err := d.Queue.GlobalRateLimit(ctx)
	if err != nil {
		return err
	}

	held, err := d.held(ctx, rate)
	if err != nil {
		return err
	}

	if d.JSON {
		return d.document(limits{
			Concurrency: concurrency, RateMax: rate.Max, RateMs: rate.Duration.Milliseconds(), HeldMs: held.Milliseconds(),
		})
	}

	rows := [][]string{{"jobs at once", "no limit"}, {"starts", "no limit"}}
	if concurrency > 0 {
		rows[0][1] = strconv.Itoa(concurrency)
	}

	if rate.Max > 0 {
		rows[1][1] = fmt.Sprintf("%d in %s", rate.Max, rate.Duration)
	}

	if held > 0 {
		rows = append(rows, []string{"held for", age(held)})
	}

	return d.table(rows)
}

// held is how long nothing may be started; without a global limit only a window that forbids every start counts.
func (d *Desk) held(ctx context.Context, rate queue.Limiter) (time.Duration, error) {
	const noStart = 1 << 52

	most := rate.Max
	if most == 0 {
		most = noStart
	}

	return d.Queue.RateLimitTTL(ctx, most)
}

// SetLimits sets those limits that are not zero.
func (d *Desk) SetLimits(ctx context.Context, concurrency int, rate queue.Limiter, hold time.Duration) error {
	if concurrency > 0 {
		if err := d.Queue.SetGlobalConcurrency(ctx, concurrency); err != nil {
			return err
		}
	}

	if rate.Max > 0 {
		if err := d.Queue.SetGlobalRateLimit(ctx, rate); err != nil {
			return err
		}
	}

	if hold > 0 {
		if err := d.Queue.RateLimit(ctx, hold); err != nil {
			return err
		}
	}

	return d.Limits(ctx)
}

// LimitKinds say which limits are meant.
type LimitKinds struct{ Concurrency, Rate, Hold bool }

// ClearLimits takes limits away.
func (d *Desk) ClearLimits(ctx context.Context, which LimitKinds) error {
	for _, step := range []struct {
		wanted bool
		remove func(context.Context) error
	}{
		{which.Concurrency, d.Queue.RemoveGlobalConcurrency},
		{which.Rate, d.Queue.RemoveGlobalRateLimit},
		{which.Hold, d.Queue.RemoveRateLimit},
	} {
		if !step.wanted {
			continue
		}

		if err := step.remove(ctx); err != nil {
			return err
		}
	}

	return d.Limits(ctx)
}
