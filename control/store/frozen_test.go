package store

import (
	"context"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/pgtest"
)

// A control plane stands still in the middle of a write, as a process that was stopped or a machine that was paused does. The server ends the
// write, and others get at its rows.
func TestStandingStillInAWrite(t *testing.T) {
	t.Parallel()
	database := pgtest.Start(t).Database()
	frozen, other := openAt(t, database), openAt(t, database)
	if err := frozen.write(t.Context(), "keep", keep("row")); err != nil {
		t.Fatal(err)
	}
	change := func(value string) func(*tx) error {
		return func(t *tx) error { return t.run(`UPDATE secrets SET value = $1 WHERE name = 'row'`, []byte(value)) }
	}
	locked, thaw, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() { // ends below
		ended <- frozen.write(context.WithoutCancel(t.Context()), "stand still", func(t *tx) error {
			if err := change("frozen")(t); err != nil {
				return err
			}
			close(locked)
			<-thaw

			return change("frozen, later")(t)
		})
	}()
	<-locked
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := other.write(ctx, "change", change("other")); err != nil {
		t.Errorf("the row stays locked: %v", err)
	}
	close(thaw)
	if err := <-ended; err == nil {
		t.Error("the write that stood still says that it was made")
	}
	var value string
	if err := other.reader.QueryRowContext(t.Context(), `SELECT value FROM secrets WHERE name = 'row'`).Scan(&value); err != nil || value != "other" {
		t.Errorf("%q, %v", value, err)
	}
}
