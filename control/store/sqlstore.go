package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// txTries is how often a transaction is run that lost a race which the database undid.
const txTries = 4

// sqlStore is the Store of both databases. The two differ in how they are opened, in the clause that locks a row
// (SQLite's one writer needs none), in how texts are compared byte by byte, and in which errors are lost races.
type sqlStore struct {
	writer    *sql.DB
	reader    *sql.DB
	now       func() time.Time
	forUpdate string
	// byBytes makes a comparison of texts one of bytes.
	byBytes   string
	sizeOf    sizing
	transient func(error) bool
	counts    ledgerCounts
	// together is nil for Postgres, which writes the commits of several connections at once by itself; there, longer transactions only
	// make each other wait.
	together *together
	// statements is nil where the driver keeps them.
	statements *statements
}

var _ Store = (*sqlStore)(nil)

// Ping tells whether the database answers.
func (s *sqlStore) Ping(ctx context.Context) error { return s.reader.PingContext(ctx) }

// Close gives the connections back.
func (s *sqlStore) Close() error {
	if s.statements != nil {
		s.statements.close()
	}
	if s.reader == s.writer {
		return s.writer.Close()
	}

	return errors.Join(s.reader.Close(), s.writer.Close())
}

// tx is one transaction and the time at which it happens.
type tx struct {
	*sql.Tx
	ctx       context.Context
	now       time.Time
	forUpdate string
	prepared  *statements
	// asked are the effects that the ledger was asked for, and whether they happened.
	asked []ledgerAnswer
}

// write runs fn in a transaction and commits it if fn returns nil.
func (s *sqlStore) write(ctx context.Context, op string, fn func(t *tx) error) error {
	if err := s.writeAgain(ctx, fn); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}

	return nil
}

func (s *sqlStore) writeOnce(ctx context.Context, fn func(t *tx) error) error {
	if s.statements != nil {
		s.statements.prepare(ctx, s.writer)
	}
	t, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	// After a commit it does nothing, and its error says nothing that fn's does not say better. Deferred, because fn may panic: a transaction
	// that stayed open would keep the rows, in SQLite the one connection that writes, from everybody until the process ends.
	defer func() { _ = t.Rollback() }()
	in := &tx{Tx: t, ctx: ctx, now: s.now(), forUpdate: s.forUpdate, prepared: s.statements}
	if err := fn(in); err != nil {
		return err
	}
	if err := t.Commit(); err != nil {
		return err
	}
	s.counts.add(in.asked)

	return nil
}

// exec runs a statement and returns how many rows it touched.
func (t *tx) exec(query string, args ...any) (int64, error) {
	var r sql.Result
	var err error
	if s := t.statement(query); s != nil { //nolint:sqlclosecheck // the transaction's end closes it
		r, err = s.ExecContext(t.ctx, args...)
	} else {
		r, err = t.ExecContext(t.ctx, query, args...)
	}
	if err != nil {
		return 0, err
	}

	return r.RowsAffected()
}

// run runs a statement whose count does not matter.
func (t *tx) run(query string, args ...any) error {
	_, err := t.exec(query, args...)

	return err
}

// row reads one row, for update if the transaction is going to decide on it.
func (t *tx) row(query string, args ...any) *sql.Row {
	if s := t.statement(query); s != nil { //nolint:sqlclosecheck // the transaction's end closes it
		return s.QueryRowContext(t.ctx, args...)
	}

	return t.QueryRowContext(t.ctx, query, args...)
}

// statement is the prepared form of the query, or nil.
func (t *tx) statement(query string) *sql.Stmt {
	if t.prepared == nil {
		return nil
	}
	s := t.prepared.get(query)
	if s == nil {
		return nil
	}

	return t.StmtContext(t.ctx, s)
}

// millis and fromMillis are the tables' form of time; 0 is the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}

	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}

	return time.UnixMilli(ms).UTC()
}
