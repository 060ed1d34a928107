package fleet

import (
	"fmt"
	"time"

	"github.com/posefleet/posefleet/control/store"
)

// plan is what a pass wants: so many workers, and why if that is another number than before.
type plan struct {
	desired int
	reason  string
	// needed tells whether the work needs as many workers as were asked for before.
	needed bool
}

// need is how many workers the work needs, where so many were asked for. The shelter never asks for more than Max: a worker that died holds its
// leases for a while, and so would each that is started in its place for others.
func (c *Config) need(d store.FleetDemand, desired int) int {
	n := (d.Waiting + d.Working + c.Slots - 1) / c.Slots
	if d.WakeUntil.After(d.At) {
		n = max(n, 1)
	}
	n = min(max(n, c.Min), c.Max)
	if shelters {
		n = max(n, min(len(d.Busy), max(desired, c.Max)))
	}

	return n
}

// plan decides: more at once, fewer once that was enough for an interval.
func (c *Config) plan(desired int, neededAt time.Time, d store.FleetDemand) plan {
	need, idle := c.need(d, desired), d.At.Sub(neededAt)
	switch {
	case need > desired:
		return plan{desired: need, reason: c.why(d), needed: true}
	case need == desired:
		return plan{desired: desired, needed: desired > 0}
	case idle < c.Interval:
		return plan{desired: desired}
	case d.Waiting+d.Working == 0:
		return plan{desired: need, reason: "no work for " + c.Interval.String()}
	default:
		return plan{desired: need, reason: "less work for " + c.Interval.String()}
	}
}

// why tells what asks for more workers.
func (c *Config) why(d store.FleetDemand) string {
	switch {
	case d.Waiting+d.Working > 0:
		return fmt.Sprintf("%d waiting, %d being worked on", d.Waiting, d.Working)
	case d.WakeUntil.After(d.At):
		return "woken"
	default:
		return "the least number of workers"
	}
}
