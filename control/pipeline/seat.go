package pipeline

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// seats is how many processes may run the pipeline on one database.
	seats = 64
	// seatLock is the first key of the advisory locks: a number of our own.
	seatLock = 0x706f7365
	// seatChecks is how often a process looks whether it still has its seat while another one would wait before it takes over its runs.
	seatChecks = 3
	// seatPatience is how many looks a seat that is held elsewhere is tried for.
	seatPatience = 12
	// maxAdopted bounds how many runs are taken over at once.
	maxAdopted = 1000
	seatPrefix = "control-"
	// unknownSetting is PostgreSQL's code for a setting that it does not have.
	unknownSetting = "42704"
)

var errUnreachable = errors.New("the database can't be reached")

var errSeats = fmt.Errorf("there are %d control planes on this database already", seats)

// errSeatTaken: another process took over the runs.
var errSeatTaken = errors.New("the connection to the database was lost, and another control plane took over the runs")

// seat is what tells the processes on one Postgres apart: a number, held by an advisory lock for as long as the process lives. DBOS knows
// the process by it. Whoever sits down takes up the runs that its predecessor left; the seats of processes that do not come back are
// looked after by the others.
//
//	held ──connection lost──► free ──same process within the patience of the others──► held
//	  │                        └──free for takeover──► its runs go on in another process
//	  └──not a word for takeover: the server ends the session──► free
type seat struct {
	number int
	// takeover is how long a seat is free before another process takes over the runs of it.
	takeover time.Duration
	config   *pgx.ConnConfig
	conn     *pgx.Conn
	lost     chan error
	stop     context.CancelFunc
	done     chan struct{}
}

func seatName(number int) string { return seatPrefix + strconv.Itoa(number) }

func (s *seat) name() string { return seatName(s.number) }

// takeSeat takes the first seat that is free.
func takeSeat(ctx context.Context, config *pgx.ConnConfig, takeover time.Duration) (*seat, error) {
	s := &seat{config: config.Copy(), takeover: takeover, lost: make(chan error, 1), done: make(chan struct{})}
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, errUnreachable
	}
	for s.number = range seats {
		got, err := lockSeat(ctx, conn, s.number)
		if err == nil && got {
			s.conn = conn
			watch, stop := context.WithCancel(context.WithoutCancel(ctx))
			s.stop = stop
			go s.keep(watch) // ends with leave

			return s, nil
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("take a seat: %w", err), conn.Close(ctx))
		}
	}

	return nil, errors.Join(errSeats, conn.Close(ctx))
}

// connect opens a connection that holds a lock no longer than its process is heard: one that stands still, or whose machine is gone, would
// keep its seat for hours, and nobody would go on with its runs. A server older than 14 knows no such limit, and has the system's.
func (s *seat) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.takeover)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, s.config)
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, `SELECT set_config('idle_session_timeout', $1, false)`, strconv.FormatInt(s.takeover.Milliseconds(), 10))
	if fault, ok := errors.AsType[*pgconn.PgError](err); err != nil && (!ok || fault.Code != unknownSetting) {
		return nil, errors.Join(err, conn.Close(ctx))
	}

	return conn, nil
}

func lockSeat(ctx context.Context, conn *pgx.Conn, number int) (bool, error) {
	var got bool
	err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, $2)`, seatLock, number).Scan(&got)

	return got, err
}

// keep holds the connection that holds the lock, and takes the same seat again if it was lost.
func (s *seat) keep(ctx context.Context) {
	defer close(s.done)
	defer func() { _ = s.conn.Close(context.WithoutCancel(ctx)) }() // the lock goes with it
	tick := time.NewTicker(s.takeover / seatChecks)
	defer tick.Stop()
	held, missed := true, 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		alive := s.ping(ctx)
		if alive && held {
			continue
		}
		held = s.again(ctx, alive)
		if held {
			missed = 0
			continue
		}
		// Our own former connection may hold it until the server notices that it is gone.
		if missed++; missed > seatPatience {
			s.lost <- errSeatTaken

			return
		}
	}
}

// ping tells whether the connection answers, in time: one that is silent is as good as lost.
func (s *seat) ping(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, s.takeover/seatChecks)
	defer cancel()

	return s.conn.Ping(ctx) == nil
}

// again takes the seat once more, on a new connection unless this one lives.
func (s *seat) again(ctx context.Context, alive bool) bool {
	if !alive {
		_ = s.conn.Close(ctx)
		conn, err := s.connect(ctx)
		if err != nil {
			return true // nobody can take it either; the next look tries again
		}
		s.conn = conn
	}
	got, err := lockSeat(ctx, s.conn, s.number)

	return err != nil || got
}

// whileFree calls fn while it holds the seat of that number, if nobody else does.
func (s *seat) whileFree(ctx context.Context, number int, fn func() error) error {
	conn, err := pgx.ConnectConfig(ctx, s.config)
	if err != nil {
		return errUnreachable
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // and with it the lock
	if got, err := lockSeat(ctx, conn, number); err != nil || !got {
		return err
	}

	return fn()
}

// takenSeats are the seats that processes sit on, as the server knows them.
const takenSeats = `SELECT objid::int FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = $1 AND objsubid = 2
	AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// leave gives the seat back.
func (s *seat) leave() error {
	s.stop()
	<-s.done

	return nil
}

// escapePath is the path as SQLite reads it in a URI.
func escapePath(path string) string {
	return (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()
}
