package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/posefleet/posefleet/control/store"
)

// Status is the fleet as the database knows it, from whichever process it is asked.
type Status struct {
	// Driver, Min, Max, Slots and Interval are this process's configuration.
	Driver          string
	Min, Max, Slots int
	Interval        time.Duration
	// Owner is the process that decides, until LeaseUntil; "" if none does.
	Owner      string
	LeaseUntil time.Time
	// Desired is how many workers were asked for last, at ChangedAt, and Reason says why.
	Desired   int
	Reason    string
	ChangedAt time.Time
	// Running and Ready are how many the platform had at SeenAt.
	Running, Ready int
	SeenAt         time.Time
	// Waiting and Working are the analyses that ask for workers now; Woken is until when one is asked for without any.
	Waiting, Working int
	Woken            time.Time
	// History is what changed, oldest first.
	History []store.FleetPoint
}

// Managed tells whether somebody here decides: false for a fleet of kind None, of which nothing is known.
func (s *Status) Managed() bool { return s.Driver != string(None) }

// Status reads the fleet, with at most limit points of its history since a time.
func (r *Reconciler) Status(ctx context.Context, since time.Time, limit int) (Status, error) {
	row, err := r.store.Fleet(ctx)
	if err != nil {
		return Status{}, fmt.Errorf("fleet status: %w", err)
	}
	d, err := r.store.FleetDemand(ctx)
	if err != nil {
		return Status{}, fmt.Errorf("fleet status: %w", err)
	}
	history, err := r.store.FleetHistory(ctx, since, limit)
	if err != nil {
		return Status{}, fmt.Errorf("fleet status: %w", err)
	}

	return Status{
		Driver: r.driver.Name(), Min: r.cfg.Min, Max: r.cfg.Max, Slots: r.cfg.Slots, Interval: r.cfg.Interval,
		Owner: row.Owner, LeaseUntil: row.LeaseUntil, Desired: row.Desired, Reason: row.Reason, ChangedAt: row.ChangedAt,
		Running: row.Running, Ready: row.Ready, SeenAt: row.SeenAt, Waiting: d.Waiting, Working: d.Working, Woken: d.WakeUntil, History: history,
	}, nil
}

// Wake asks for a worker and tells whether one is ready, and otherwise after how long to ask again. It waits for nothing but the database,
// and for that at most wakeMost.
func (r *Reconciler) Wake(ctx context.Context) (ready bool, again time.Duration, err error) {
	if r.driver == (fixed{}) {
		return true, 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wakeMost)
	defer cancel()
	row, err := r.store.Fleet(ctx)
	if err != nil {
		return false, r.driver.Pace(), fmt.Errorf("wake: %w", err)
	}
	now := r.cfg.Now()
	// The wish is written before anybody is told, and not again with each question.
	if long := r.cfg.wakeFor(); row.WakeUntil.Sub(now) < long/2 {
		if err := r.store.FleetWake(ctx, now.Add(long)); err != nil {
			return false, r.driver.Pace(), fmt.Errorf("wake: %w", err)
		}
		r.Kick()
	}
	if row.Desired > 0 && row.Ready > 0 && now.Sub(row.SeenAt) < 2*verify {
		return true, 0, nil
	}

	return false, r.driver.Pace(), nil
}
