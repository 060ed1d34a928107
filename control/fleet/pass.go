package fleet

import (
	"context"
	"log/slog"
	"time"

	"github.com/posefleet/posefleet/control/store"
)

// pass brings the fleet to where it should be, as far as one step goes, and returns after how long there may be more to do.
func (r *Reconciler) pass(ctx context.Context) time.Duration {
	if leads, err := r.lead(ctx); err != nil || !leads {
		if err != nil {
			return r.failed(ctx, "the lease can't be had", err)
		}

		return look
	}
	ctx, cancel := context.WithDeadline(ctx, r.leadUntil)
	defer cancel()
	if r.seenAt.IsZero() {
		if err := r.look(ctx); err != nil {
			return r.failed(ctx, "the platform does not say what there is", err)
		}
		r.ordered = r.seen.Desired
	}
	asked := time.Now()
	d, err := r.store.FleetDemand(ctx)
	if err != nil {
		return r.failed(ctx, "the demand can't be read", err)
	}
	again, err := r.act(ctx, d, time.Since(asked))
	if err != nil {
		return r.failed(ctx, "the number of workers can't be set", err)
	}
	if again {
		r.faults = 0

		return 0
	}
	if r.lookDue(d) {
		if err := r.look(ctx); err != nil {
			return r.failed(ctx, "the platform does not say what there is", err)
		}
	}
	if err := r.report(ctx, d); err != nil {
		return r.failed(ctx, "the fleet can't be written down", err)
	}
	r.recovered(ctx)
	if r.unsettled() {
		return min(r.driver.Pace(), look)
	}

	return look
}

// lead takes or keeps the lease, and tells whether enough of it is left for a pass.
func (r *Reconciler) lead(ctx context.Context) (bool, error) {
	start, epoch := time.Now(), r.epoch
	if !r.leadUntil.IsZero() && r.leadUntil.Sub(start) > renewAt {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callMost)
	defer cancel()
	row, leads, err := r.store.FleetLead(ctx, r.cfg.Owner, epoch, lease)
	if err != nil {
		// Nothing is done without a lease, and nothing is ended because the database is away.
		if time.Until(r.leadUntil) < callMargin {
			r.leadUntil = time.Time{}
		}

		return false, err
	}
	if !leads {
		r.follow(ctx)

		return false, nil
	}
	fresh := r.leadUntil.IsZero() || row.Epoch != epoch
	r.epoch, r.leadUntil = row.Epoch, start.Add(lease)
	if fresh {
		r.begin(ctx, row)
	}

	return true, nil
}

// begin takes up the fleet as it is in the row.
func (r *Reconciler) begin(ctx context.Context, row store.Fleet) {
	if !r.leads {
		r.log.InfoContext(ctx, "decides about the fleet", slog.String("driver", r.driver.Name()), slog.Int64("epoch", r.epoch),
			slog.Int("desired", row.Desired))
	}
	// Nobody has looked since the last one who decided did: what it saw as needed may have been so until now.
	r.leads, r.desired, r.neededAt, r.needed = true, row.Desired, row.NeededAt, true
	r.seenAt, r.writtenAt, r.orderedAt, r.heldUntil = time.Time{}, time.Time{}, time.Time{}, time.Time{}
}

// act decides and asks for what was decided; it tells whether the next pass is due at once. took is how long the demand was read for.
func (r *Reconciler) act(ctx context.Context, d store.FleetDemand, took time.Duration) (again bool, err error) {
	if r.needed {
		// Also if this reading needs fewer: the work may have ended just before it.
		r.neededAt = d.At.Add(took)
	}
	p := r.cfg.plan(r.desired, r.neededAt, d)
	if r.needed = p.needed; p.needed {
		r.neededAt = d.At
	}
	if p.desired == r.desired && r.seen.Desired < p.desired && !r.orderPending() && r.cfg.need(d, r.desired) <= r.seen.Desired {
		// Fewer than were asked for, and no more are needed: nothing is started only to be ended again.
		p = plan{desired: max(r.seen.Desired, r.cfg.need(d, r.desired)), reason: "as found"}
	}
	if r.fewer(p.desired) && r.orderDue(p.desired) {
		if p, err = r.spare(ctx, p, d); err != nil {
			return false, err
		}
	}
	fewer := r.fewer(p.desired)
	if p.desired != r.desired {
		if err := r.decide(ctx, p, d); err != nil {
			return false, err
		}
	}
	if !r.orderDue(p.desired) {
		return false, nil
	}
	if err := r.order(ctx, p.desired, d); err != nil || !fewer || !rereads {
		return false, err
	}
	// The other half of the handshake: what was written before this moment is seen now or by whoever wrote it.
	after, err := r.store.FleetDemand(ctx)

	return err == nil && r.cfg.need(after, r.desired) > p.desired, err
}

// fewer tells whether n is less than there may be.
func (r *Reconciler) fewer(n int) bool { return n < max(r.desired, r.ordered, r.seen.Desired) }

// spare asks the platform whether it can end the rest without ending work.
func (r *Reconciler) spare(ctx context.Context, p plan, d store.FleetDemand) (plan, error) {
	ctx, cancel := r.callContext(ctx)
	defer cancel()
	most := max(r.desired, r.ordered, r.seen.Desired)
	least := most
	if !time.Now().Before(r.heldUntil) {
		var err error
		if least, err = r.driver.Spare(ctx, p.desired, d.Busy); err != nil {
			return p, err
		}
		if least > p.desired {
			r.heldUntil = time.Now().Add(verify)
		}
	}
	if least = min(least, most); least > p.desired {
		p.desired, p.reason = least, "workers that are busy or protected stay"
	}

	return p, nil
}

// decide writes the number down.
func (r *Reconciler) decide(ctx context.Context, p plan, d store.FleetDemand) error {
	err := r.store.FleetDecide(ctx, store.FleetDecision{Epoch: r.epoch, Desired: p.desired, Reason: p.reason, NeededAt: r.neededAt, Demand: d})
	if err != nil {
		return err
	}
	r.log.InfoContext(ctx, "fleet", slog.Int("from", r.desired), slog.Int("to", p.desired), slog.String("reason", p.reason),
		slog.Int("waiting", d.Waiting), slog.Int("working", d.Working))
	r.desired = p.desired

	return nil
}

// orderPending tells whether the platform may still be on the way to what it was asked for.
func (r *Reconciler) orderPending() bool { return time.Since(r.orderedAt) < settle }

// orderDue tells whether the platform has to be asked for n: it was asked for another number, or has forgotten.
func (r *Reconciler) orderDue(n int) bool {
	return r.ordered != n || (r.seen.Desired != n && !r.orderPending())
}

// order asks for n workers.
func (r *Reconciler) order(ctx context.Context, n int, d store.FleetDemand) error {
	ctx, cancel := r.callContext(ctx)
	defer cancel()
	// Whatever comes of it, the platform may have heard: what it was asked for is not known any more until it says so.
	r.ordered, r.orderedAt = -1, time.Time{}
	if err := r.driver.Set(ctx, n, d.Busy); err != nil {
		return err
	}
	r.ordered, r.orderedAt = n, time.Now()

	return nil
}

// callContext ends before the lease does: a call of an old leader must not come after one of the next.
func (r *Reconciler) callContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, earlier(time.Now().Add(callMost), r.leadUntil.Add(-callMargin)))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}

	return a
}

// unsettled tells whether the platform shows something else than was asked for.
func (r *Reconciler) unsettled() bool {
	return r.seen.Desired != r.desired || r.seen.Running != r.desired || r.seen.Ready < r.desired
}

// lookDue tells whether the platform has to be looked at.
func (r *Reconciler) lookDue(d store.FleetDemand) bool {
	age := time.Since(r.seenAt)
	switch {
	case r.unsettled():
		return age >= r.driver.Pace()
	case r.cfg.need(d, r.desired) > 0:
		return age >= verify
	default:
		return age >= max(verify, r.cfg.Interval)
	}
}

// look reads what the platform says.
func (r *Reconciler) look(ctx context.Context) error {
	ctx, cancel := r.callContext(ctx)
	defer cancel()
	seen, err := r.driver.Look(ctx)
	if err != nil {
		return err
	}
	if seen.Ready != r.seen.Ready || seen.Running != r.seen.Running {
		r.log.InfoContext(ctx, "fleet as it is", slog.Int("desired", seen.Desired), slog.Int("running", seen.Running), slog.Int("ready", seen.Ready))
	}
	r.seen, r.seenAt = seen, time.Now()

	return nil
}

// report writes down what was seen, if it is new or the row would be too old for whoever reads it.
func (r *Reconciler) report(ctx context.Context, d store.FleetDemand) error {
	age := time.Since(r.writtenAt)
	if r.seen == r.written && r.seenAt.Before(r.writtenAt) && (r.neededAt.Before(d.At) || age < min(verify, r.cfg.Interval)/3) {
		return nil
	}
	err := r.store.FleetSeen(ctx, store.FleetSighting{
		Epoch: r.epoch, Running: r.seen.Running, Ready: r.seen.Ready, NeededAt: r.neededAt, Demand: d,
	})
	if err == nil {
		r.written, r.writtenAt = r.seen, time.Now()
	}

	return err
}
