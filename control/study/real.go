package study

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Real is a day whose repeats arose for real, as package rig lets them, in one kind of database.
type Real struct {
	Database string `json:"database"`
	// Shipments is the size of the day, Events how many things happened to them.
	Shipments int `json:"shipments"`
	Events    int `json:"events"`
	// Made are the faults that were made: what the generator of the model asked for.
	Made Faults `json:"made"`
	// Deliveries is how often the write was reached, Sources by whom again (indexes as in Sources), as was observed at the write.
	Deliveries int   `json:"deliveries"`
	Sources    []int `json:"sources"`
	// InvoiceLines are those that are billed twice without a ledger.
	InvoiceLines int `json:"duplicateInvoiceLines"`
	// Wanted is the number of effects that all deliveries together ask for.
	Wanted int `json:"effectsAskedFor"`
	// Failed are the jobs that nobody could do.
	Failed int           `json:"failedJobs"`
	Took   time.Duration `json:"tookNs"`
	// Scopes are what no ledger and the ledger with each key made of the same deliveries, one database each.
	Scopes []Measured `json:"scopes"`
}

// Faults are what was done to a day.
type Faults struct {
	// LostReplies are answers that were cut off after the door's commit.
	LostReplies int `json:"lostReplies"`
	// Failovers are masters killed; Unseen are the jobs whose end only the dead masters knew.
	Failovers int `json:"failovers"`
	Unseen    int `json:"unseenEnds"`
	// LostWorkers are workers cut off between the effect and the finish.
	LostWorkers int `json:"lostWorkers"`
}

// Prevented is how many of the effects did not happen.
func (r *Real) Prevented(m Measured) int { return r.Wanted - m.Effects }

// Check joins all faults of the day: whatever came how often, each scope has had its effects exactly once.
func (r *Real) Check() error {
	repeats := 0
	for _, n := range r.Sources {
		repeats += n
	}
	model := Quiet()
	model.Shipments = r.Shipments
	once := model.Run()
	faults := []error{
		r.differ("events", r.Events, once.Deliveries),
		r.differ("deliveries", r.Deliveries, once.Deliveries+repeats),
		r.differ("failed jobs", r.Failed, 0),
		r.checkScope("", Outcome{Effects: r.Wanted}),
	}
	for _, want := range once.Outcomes {
		want.Suppressed = r.Deliveries - want.Processed
		faults = append(faults, r.checkScope(want.Scope, want))
	}

	return errors.Join(faults...)
}

func (r *Real) checkScope(scope Scope, want Outcome) error {
	i := slices.IndexFunc(r.Scopes, func(m Measured) bool { return m.Scope == scope })
	if i < 0 {
		return fmt.Errorf("%s: nothing was measured with %s", r.Database, label(scope))
	}
	got, name := r.Scopes[i], label(scope)

	return errors.Join(
		r.differ(name+": deliveries", got.Deliveries, r.Deliveries),
		r.differ(name+": suppressed deliveries", got.Suppressed, want.Suppressed),
		r.differ(name+": effects", got.Effects, want.Effects),
		r.differ(name+": ledger rows", got.Ledger, want.Ledger),
	)
}

// differ is the fault that a number is not what it should be.
func (r *Real) differ(what string, got, want int) error {
	if got == want {
		return nil
	}

	return fmt.Errorf("%s: %s are %d, not %d", r.Database, what, got, want)
}
