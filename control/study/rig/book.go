package rig

import (
	"context"
	"errors"
	"sync"

	"github.com/posefleet/posefleet/control/study"
)

// arrival is a delivery as it comes to the write.
type arrival struct {
	event study.Event
	// job is that of the queue; reign counts the masters that there have been.
	job   string
	reign int
}

// book writes each delivery to the store of each variant, and notes what brought it. What it knows of that it sees at the write:
//
//	event never seen                                      the first time
//	event seen, this job not                              carrier retry: it was posted again
//	this job seen, but at a master that is dead now       replay on failover
//	this job seen at this master                          redelivery
type book struct {
	meters []*study.Meter
	ends   []func() error

	mu           sync.Mutex
	seen         map[string]map[string]int // by event and job: the reign in which it came last
	deliveries   int
	sources      []int
	wanted       int
	invoiceLines int
}

func openBook(ctx context.Context, d study.Database) (*book, error) {
	b := &book{seen: map[string]map[string]int{}, sources: make([]int, len(study.Sources()))}
	for _, scope := range study.Variants() {
		s, done, err := d.Empty(ctx)
		if err != nil {
			return nil, errors.Join(err, b.close())
		}
		b.ends = append(b.ends, done)
		m, err := study.NewMeter(ctx, s, d.Name, scope)
		if err != nil {
			return nil, errors.Join(err, b.close())
		}
		b.meters = append(b.meters, m)
	}

	return b, nil
}

func (b *book) close() error {
	var faults []error
	for _, end := range b.ends {
		faults = append(faults, end())
	}

	return errors.Join(faults...)
}

// deliver is the effect of a job. Each begins with another store, so that none is always the one that the workers meet at.
func (b *book) deliver(ctx context.Context, a arrival) error {
	first := b.note(a)
	for i := range b.meters {
		if err := b.meters[(first+i)%len(b.meters)].Deliver(ctx, a.event); err != nil {
			return err
		}
	}

	return nil
}

// note counts the delivery and gives its number.
func (b *book) note(a arrival) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deliveries++
	b.wanted += a.event.Effects()
	jobs, again := b.seen[a.event.ID()]
	if !again {
		b.seen[a.event.ID()] = map[string]int{a.job: a.reign}

		return b.deliveries
	}
	if a.event.State == study.Delivered {
		b.invoiceLines++
	}
	switch reign, same := jobs[a.job]; {
	case !same:
		b.sources[study.CarrierRetry]++
	case reign < a.reign:
		b.sources[study.Replay]++
	default:
		b.sources[study.Redelivery]++
	}
	jobs[a.job] = a.reign

	return b.deliveries
}

// fill adds what was counted.
func (b *book) fill(ctx context.Context, out *study.Real) error {
	for _, m := range b.meters {
		measured, err := m.Measured(ctx)
		if err != nil {
			return err
		}
		out.Scopes = append(out.Scopes, measured)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out.Events, out.Deliveries, out.Sources = len(b.seen), b.deliveries, b.sources
	out.Wanted, out.InvoiceLines = b.wanted, b.invoiceLines

	return nil
}
