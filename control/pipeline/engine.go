package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite" // DBOS on SQLite
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posefleet/posefleet/control/store"
)

const (
	// appName and schema are the names of what DBOS keeps, for good.
	appName = "posefleet"
	schema  = "posefleet_runs"
	// sqliteSuffix is added to the path of the store's file.
	sqliteSuffix = "-runs"
	// maxConns bounds the connections to Postgres for the steps.
	maxConns = 8
	// startLimit bounds the first connection, and the making of the tables: a slow disk takes its time for each of them.
	startLimit = 2 * time.Minute
	// takeUps is how often a run may be taken up: after any number of deploys and crashes.
	takeUps = 1 << 30
)

// engine is DBOS with what it needs.
type engine struct {
	dbos dbos.Context
	pool *pgxpool.Pool
	seat *seat
	// name is what DBOS calls this process.
	name string
	// lost gets an error when the seat went to another process.
	lost <-chan error
	// freeSince is since when seats are known to be free; only Pipeline.Run's goroutine looks.
	freeSince map[int]time.Time
}

// openEngine connects, brings the tables up to date and takes up the runs of this process's predecessor.
func openEngine(ctx context.Context, databaseURL string, takeover time.Duration, log *slog.Logger, fn dbos.Workflow[input, store.Status]) (*engine, error) {
	e := &engine{freeSince: map[int]time.Time{}}
	config := dbos.Config{
		AppName: appName, ApplicationVersion: version, ExecutorID: seatName(0), DatabaseSchema: schema, SystemDBStartupTimeout: startLimit,
		Logger: slog.New(&quiet{log.Handler()}),
	}
	if path, ok := strings.CutPrefix(databaseURL, "sqlite:"); ok {
		path, _, _ = strings.Cut(path, "?")
		if err := store.OwnersFile(path + sqliteSuffix); err != nil {
			return nil, err
		}
		// As a path in a URL: it may have any characters.
		config.DatabaseURL = "sqlite:file:" + escapePath(path+sqliteSuffix)
	} else if err := e.connect(ctx, databaseURL, takeover, &config); err != nil {
		return nil, err
	}
	e.name = config.ExecutorID
	var err error
	// The engine outlives the call, and ends with close.
	if e.dbos, err = dbos.NewContext(context.WithoutCancel(ctx), config); err != nil {
		return nil, errors.Join(withoutPassword(err, databaseURL), e.close())
	}
	dbos.RegisterWorkflow(e.dbos, fn, dbos.WithWorkflowName(workflowName), dbos.WithMaxRecoveryAttempts(takeUps))
	if err := dbos.Launch(e.dbos); err != nil {
		return nil, errors.Join(withoutPassword(err, databaseURL), e.close())
	}

	return e, nil
}

// connect opens the pool and takes a seat.
func (e *engine) connect(ctx context.Context, databaseURL string, takeover time.Duration, config *dbos.Config) error {
	c, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return errors.New("not a valid postgres:// URL")
	}
	c.MaxConns, c.AfterConnect = maxConns, store.LimitIdle
	if e.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), c); err != nil {
		return errUnreachable
	}
	if e.seat, err = takeSeat(ctx, c.ConnConfig, takeover); err != nil {
		return errors.Join(err, e.close())
	}
	e.lost = e.seat.lost
	config.SystemDBPool, config.ExecutorID = e.pool, e.seat.name()

	return nil
}

// states are the states of the workflows of these runs, by id.
func (e *engine) states(rows []store.Run) (map[string]dbos.WorkflowStatusType, error) {
	var ids []string
	for _, row := range rows {
		for again := range maxRetries + 1 {
			ids = append(ids, workflowID(store.RunKey{AnalysisID: row.AnalysisID, Round: row.Round}, again))
		}
	}
	all, err := dbos.ListWorkflows(e.dbos, dbos.WithFilterWorkflowIDs(ids...), dbos.WithFilterLoadInput(false), dbos.WithFilterLoadOutput(false))
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	out := map[string]dbos.WorkflowStatusType{}
	for _, w := range all {
		out[w.ID] = w.Status
	}

	return out, nil
}

// forget removes runs that ended long ago.
func (e *engine) forget(age time.Duration, limit int) error {
	old, err := dbos.ListWorkflows(e.dbos, dbos.WithFilterCompletedBefore(time.Now().Add(-age)), dbos.WithFilterLimit(limit),
		dbos.WithFilterStatus(dbos.WorkflowStatusSuccess, dbos.WorkflowStatusError), dbos.WithFilterLoadInput(false), dbos.WithFilterLoadOutput(false))
	if err != nil || len(old) == 0 {
		return err
	}
	var ids []string
	for _, w := range old {
		ids = append(ids, w.ID)
	}

	return dbos.DeleteWorkflows(e.dbos, ids)
}

// close ends the runs of this process and gives the connections back.
func (e *engine) close() error {
	var errs []error
	if e.dbos != nil {
		errs = append(errs, dbos.Shutdown(e.dbos, closeGrace))
	}
	if e.seat != nil {
		errs = append(errs, e.seat.leave())
	}
	if e.pool != nil {
		e.pool.Close()
	}

	return errors.Join(errs...)
}

// withoutPassword keeps errors that would quote the URL to themselves.
func withoutPassword(err error, databaseURL string) error {
	if strings.Contains(err.Error(), databaseURL) {
		return errors.New("the database of the runs can't be opened")
	}

	return err
}

// quiet is DBOS's log: what it tells of its own working is for debugging.
type quiet struct{ slog.Handler }

// Enabled tells whether the level, lowered, is wanted.
func (q *quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return q.Handler.Enabled(ctx, lowered(l))
}

// Handle writes the record at its lowered level.
func (q *quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = lowered(r.Level)

	return q.Handler.Handle(ctx, r)
}

// WithAttrs and WithGroup keep it quiet.
func (q *quiet) WithAttrs(a []slog.Attr) slog.Handler { return &quiet{q.Handler.WithAttrs(a)} }

// WithGroup keeps it quiet.
func (q *quiet) WithGroup(name string) slog.Handler { return &quiet{q.Handler.WithGroup(name)} }

func lowered(l slog.Level) slog.Level {
	if l < slog.LevelError {
		return slog.LevelDebug
	}

	return slog.LevelWarn
}
