package store

import (
	"context"
	"fmt"
	"time"
)

// Ends of an execution that no event of its own tells.
const (
	// EndRunning: it has not ended, as far as is known.
	EndRunning = "running"
	// EndTakenOver: a later start of its job took the lease. EndLost: its lease ran out, and somebody else redeemed.
	EndTakenOver = "taken_over"
	EndLost      = "lost"
	// EndDecided: the analysis was decided by another execution or by a person.
	EndDecided = "decided"
)

// Execution is one epoch of an analysis: a claim and what came of it.
type Execution struct {
	Epoch   int64
	Holder  Holder
	Started time.Time
	// Ended is zero while it runs. End is an Event kind (released, interrupted, lease_lapsed, delivered, failed) or one of the above.
	Ended time.Time
	End   string
	// Detail says more, such as the fault. Late is what became of a result that came after the end.
	Detail string
	Late   string
	// begun tells that the timeline has come to its beginning.
	begun bool
}

// Executions lists the executions of an analysis, oldest first, at most the newest 500. How they ended is read from the timeline.
func (s *sqlStore) Executions(ctx context.Context, id string) ([]Execution, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT epoch, worker_id, source, job_id, attempt, started_at FROM
		(SELECT * FROM executions WHERE analysis_id = $1 ORDER BY epoch DESC LIMIT $2) AS newest ORDER BY epoch`, id, timelineLimit)
	if err != nil {
		return nil, fmt.Errorf("list executions: %w", err)
	}
	all, err := scanAll(rows, func(r scanner) (Execution, error) {
		e := Execution{End: EndRunning}
		var at int64
		err := r.Scan(&e.Epoch, &e.Holder.WorkerID, &e.Holder.Source, &e.Holder.JobID, &e.Holder.Attempt, &at)
		e.Started = fromMillis(at)

		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("list executions: %w", err)
	}
	events, err := s.Timeline(ctx, id)
	if err != nil {
		return nil, err
	}
	for i := range all {
		// The timeline may begin later.
		all[i].begun = len(events) > 0 && all[i].Started.Before(events[0].At)
	}
	for _, e := range events {
		tell(all, e)
	}

	return all, nil
}

// tell lets executions know of an event. Events come in their order.
func tell(all []Execution, e Event) {
	for i := range all {
		x := &all[i]
		switch own := x.Epoch == e.Epoch; {
		case own:
			x.tellOwn(e)
		case x.Epoch > e.Epoch && e.Epoch > 0 && !x.begun:
			// It had not begun then.
		case e.Kind == EventDelivered || e.Kind == EventFailed:
			x.finish(e.At, EndDecided, fmt.Sprintf("%s by epoch %d", e.Kind, e.Epoch))
		case e.Kind == EventCancelled && x.begun:
			x.finish(e.At, EndDecided, e.Kind)
		case e.Kind == EventTakenOver && x.Epoch < e.Epoch:
			x.finish(e.At, EndTakenOver, fmt.Sprintf("by epoch %d", e.Epoch))
		case (e.Kind == EventRedeemed || e.Kind == EventReopened) && x.Epoch < e.Epoch:
			x.finish(e.At, EndLost, fmt.Sprintf("to epoch %d", e.Epoch))
		}
	}
}

// tellOwn lets an execution know of an event of its own.
func (x *Execution) tellOwn(e Event) {
	switch e.Kind {
	case EventTakenOver, EventRedeemed, EventReopened:
		x.begun = true
	case EventReleased, EventInterrupted, EventLeaseLapsed, EventDelivered, EventFailed:
		x.finish(e.At, e.Kind, e.Detail)
	case EventResultConceded, EventResultSuperseded:
		x.Late = e.Kind + ": " + e.Detail
	}
}

// finish ends an execution that has not ended.
func (x *Execution) finish(at time.Time, end, detail string) {
	if x.End == EndRunning {
		x.Ended, x.End, x.Detail = at, end, detail
	}
}
