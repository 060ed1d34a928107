package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5"

	"github.com/posefleet/posefleet/control/store"
)

// adopt takes over the runs of processes that are gone: of seats that have been free for a while, since after a restart of the database all
// are free for a moment. Where there is one process, its next start does.
func (e *engine) adopt(ctx context.Context, log *slog.Logger) error {
	if e.seat == nil {
		return nil
	}
	left, err := e.leftSeats(ctx)
	for _, number := range left {
		err = errors.Join(err, e.takeOver(ctx, number, log))
	}

	return err
}

// leftSeats are the seats that nobody has sat on for long enough.
func (e *engine) leftSeats(ctx context.Context) ([]int, error) {
	rows, err := e.pool.Query(ctx, takenSeats, seatLock)
	if err != nil {
		return nil, fmt.Errorf("look at the seats: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		clear(e.freeSince) // what was seen before an outage says nothing after it

		return nil, fmt.Errorf("look at the seats: %w", err)
	}
	taken := map[int]bool{e.seat.number: true}
	for _, number := range list {
		taken[number] = true
	}
	var left []int
	for number := range seats {
		since, known := e.freeSince[number]
		switch {
		case taken[number]:
			delete(e.freeSince, number)
		case !known:
			e.freeSince[number] = time.Now()
		case time.Since(since) >= e.seat.takeover:
			left = append(left, number)
		}
	}

	return left, nil
}

// takeOver has the runs of a seat go on here, or wherever there is room.
func (e *engine) takeOver(ctx context.Context, number int, log *slog.Logger) error {
	all, err := dbos.ListWorkflows(e.dbos, dbos.WithFilterStatus(dbos.WorkflowStatusPending), dbos.WithFilterExecutorIDs(seatName(number)),
		dbos.WithFilterLoadInput(false), dbos.WithFilterLoadOutput(false), dbos.WithFilterLimit(maxAdopted))
	if err != nil || len(all) == 0 {
		return err
	}
	ids := make([]string, 0, len(all))
	for _, w := range all {
		ids = append(ids, w.ID)
	}

	return e.seat.whileFree(ctx, number, func() error {
		log.InfoContext(ctx, "runs of a process that is gone are taken over", slog.String("seat", seatName(number)), slog.Int("runs", len(ids)))
		_, err := dbos.ResumeWorkflows[store.Status](e.dbos, ids)

		return err
	})
}
