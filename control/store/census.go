package store

import (
	"context"
	"fmt"
	"time"
)

// Census is how the queue was at a time.
type Census struct {
	At time.Time
	// Waiting, Active and Delayed count jobs; together they are the demand. OldestSeconds is how long the oldest has waited.
	Waiting, Active, Delayed int64
	OldestSeconds            int64
	Paused                   bool
	// Workers are those connected to the queue, -1 where Redis does not tell.
	Workers int64
}

// censusStep is the grain in time: of several control planes that count at once, one is kept.
const censusStep = 10 * time.Second

// AddCensus keeps a census, unless there is one of the same ten seconds.
func (s *sqlStore) AddCensus(ctx context.Context, c Census) error {
	paused := 0
	if c.Paused {
		paused = 1
	}

	return s.write(ctx, "add census", func(t *tx) error {
		return t.run(`INSERT INTO census (at, waiting, active, delayed, oldest, paused, workers)
			VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (at) DO NOTHING`, millis(c.At.Truncate(censusStep)),
			c.Waiting, c.Active, c.Delayed, c.OldestSeconds, paused, c.Workers)
	})
}

// Censuses lists those from since on, oldest first, at most the newest limit.
func (s *sqlStore) Censuses(ctx context.Context, since time.Time, limit int) ([]Census, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT at, waiting, active, delayed, oldest, paused, workers FROM
		(SELECT * FROM census WHERE at >= $1 ORDER BY at DESC LIMIT $2) AS newest ORDER BY at`, millis(since), limit)
	if err != nil {
		return nil, fmt.Errorf("read census: %w", err)
	}
	all, err := scanAll(rows, func(r scanner) (Census, error) {
		var c Census
		var at, paused int64
		err := r.Scan(&at, &c.Waiting, &c.Active, &c.Delayed, &c.OldestSeconds, &paused, &c.Workers)
		c.At, c.Paused = fromMillis(at), paused != 0

		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("read census: %w", err)
	}

	return all, nil
}

// ForgetCensus removes those before the given time, at most limit, and returns how many.
func (s *sqlStore) ForgetCensus(ctx context.Context, before time.Time, limit int) (int, error) {
	var n int64
	err := s.write(ctx, "forget census", func(t *tx) error {
		var err error
		n, err = t.exec(`DELETE FROM census WHERE at IN (SELECT at FROM census WHERE at < $1 ORDER BY at LIMIT $2)`, millis(before), limit)

		return err
	})

	return int(n), err
}
