package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// fleetHistoryKept is how many points of the fleet's history are kept: a week of one change a minute.
const fleetHistoryKept = 10_000

// FleetStore is the part of a Store that says how many workers there are to be. There is one row, and whoever holds its lease changes it.
type FleetStore interface {
	// Fleet reads the row.
	Fleet(ctx context.Context) (Fleet, error)
	// FleetLead takes or keeps the lease and tells whether the caller has it. With the epoch that it was given, the caller keeps a lease
	// that nobody has taken since. A free lease, one that has run out, and, with epoch 0, one of the caller's own name (that of the
	// process which had its address before it) is taken, with the next epoch.
	FleetLead(ctx context.Context, owner string, epoch int64, lease time.Duration) (Fleet, bool, error)
	// FleetResign gives the lease of this epoch back; another's stays as it is.
	FleetResign(ctx context.Context, epoch int64) error
	// FleetDemand counts the work that is there.
	FleetDemand(ctx context.Context) (FleetDemand, error)
	// FleetDecide writes how many workers there are to be, or is ErrLost if the lease is not that of the epoch any more.
	FleetDecide(ctx context.Context, d FleetDecision) error
	// FleetSeen writes what there is, or is ErrLost.
	FleetSeen(ctx context.Context, s FleetSighting) error
	// FleetWake asks for a worker until the given time, also before there is work. Of several requests the latest time counts.
	FleetWake(ctx context.Context, until time.Time) error
	// FleetHistory lists the newest points since a time, oldest first.
	FleetHistory(ctx context.Context, since time.Time, limit int) ([]FleetPoint, error)
}

// Fleet is the row.
type Fleet struct {
	// Owner holds the lease of Epoch until LeaseUntil, "" nobody.
	Owner      string
	Epoch      int64
	LeaseUntil time.Time
	// Desired is how many workers there are to be, since ChangedAt, for Reason.
	Desired   int
	Reason    string
	ChangedAt time.Time
	// NeededAt is when the work last needed that many.
	NeededAt time.Time
	// WakeUntil is until when at least one worker is asked for.
	WakeUntil time.Time
	// Running and Ready are how many there were at SeenAt.
	Running, Ready int
	SeenAt         time.Time
}

// FleetDemand is the work at one moment.
type FleetDemand struct {
	// At is the store's time.
	At time.Time
	// Waiting are analyses that are queued, or whose worker has fallen silent.
	Waiting int
	// Working are analyses under a lease, Busy the workers that hold them.
	Working   int
	Busy      []string
	WakeUntil time.Time
}

// FleetDecision is a change of Desired. NeededAt is left alone if it is zero.
type FleetDecision struct {
	Epoch    int64
	Desired  int
	Reason   string
	NeededAt time.Time
	// Demand is what the decision was made of.
	Demand FleetDemand
}

// FleetSighting is what the platform reports. NeededAt is left alone if it is zero.
type FleetSighting struct {
	Epoch          int64
	Running, Ready int
	NeededAt       time.Time
	Demand         FleetDemand
}

// FleetPoint is the fleet at one moment; Reason is "" where nothing was decided.
type FleetPoint struct {
	At                      time.Time
	Desired, Running, Ready int
	Waiting, Working        int
	Reason                  string
}

const fleetColumns = `owner, epoch, lease_until, desired, reason, changed_at, needed_at, wake_until, running, ready, seen_at`

func scanFleet(r scanner) (Fleet, error) {
	var f Fleet
	var lease, changed, needed, wake, seen int64
	err := r.Scan(&f.Owner, &f.Epoch, &lease, &f.Desired, &f.Reason, &changed, &needed, &wake, &f.Running, &f.Ready, &seen)
	f.LeaseUntil, f.ChangedAt, f.NeededAt = fromMillis(lease), fromMillis(changed), fromMillis(needed)
	f.WakeUntil, f.SeenAt = fromMillis(wake), fromMillis(seen)

	return f, err
}

// Fleet reads the row.
func (s *sqlStore) Fleet(ctx context.Context) (Fleet, error) {
	f, err := scanFleet(s.reader.QueryRowContext(ctx, `SELECT `+fleetColumns+` FROM fleet`))
	if err != nil {
		return f, fmt.Errorf("read fleet: %w", err)
	}

	return f, nil
}

// FleetLead takes or keeps the lease.
func (s *sqlStore) FleetLead(ctx context.Context, owner string, epoch int64, lease time.Duration) (Fleet, bool, error) {
	var f Fleet
	var leads bool
	err := s.write(ctx, "lead the fleet", func(t *tx) error {
		var err error
		if f, err = scanFleet(t.row(`SELECT ` + fleetColumns + ` FROM fleet` + t.forUpdate)); err != nil {
			return err
		}
		keeps := f.Owner == owner && f.Epoch == epoch && epoch > 0
		free := f.Owner == "" || !f.LeaseUntil.After(t.now) || (epoch == 0 && f.Owner == owner)
		if leads = keeps || free; !leads {
			return nil
		}
		if !keeps {
			f.Epoch++
		}
		f.Owner, f.LeaseUntil = owner, fromMillis(millis(t.now.Add(lease)))

		return t.run(`UPDATE fleet SET owner = $1, epoch = $2, lease_until = $3`, f.Owner, f.Epoch, millis(f.LeaseUntil))
	})

	return f, leads && err == nil, err
}

// FleetResign gives the lease back.
func (s *sqlStore) FleetResign(ctx context.Context, epoch int64) error {
	return s.write(ctx, "resign the fleet", func(t *tx) error {
		return t.run(`UPDATE fleet SET owner = '', lease_until = 0 WHERE epoch = $1`, epoch)
	})
}

// demandQuery is one statement, so that an analysis which changes hands meanwhile is seen in one place, and by indexes that hold nothing
// but open analyses.
const demandQuery = `SELECT 'wake' AS kind, '' AS holder, wake_until AS n FROM fleet
	UNION ALL SELECT 'waiting', '', COUNT(*) FROM analyses WHERE status = 'queued'
	UNION ALL SELECT CASE WHEN lease_until > $1 THEN 'working' ELSE 'waiting' END AS kind, worker_id, COUNT(*)
		FROM analyses WHERE status = 'processing' GROUP BY 1, 2 ORDER BY 1, 2`

type demandRow struct {
	kind, holder string
	n            int64
}

func scanDemand(r scanner) (demandRow, error) {
	var d demandRow

	return d, r.Scan(&d.kind, &d.holder, &d.n)
}

// FleetDemand counts the work.
func (s *sqlStore) FleetDemand(ctx context.Context) (FleetDemand, error) {
	d := FleetDemand{At: fromMillis(millis(s.now()))}
	rows, err := s.reader.QueryContext(ctx, demandQuery, millis(d.At))
	if err != nil {
		return d, fmt.Errorf("count demand: %w", err)
	}
	all, err := scanAll(rows, scanDemand)
	if err != nil {
		return d, fmt.Errorf("count demand: %w", err)
	}
	for _, r := range all {
		switch r.kind {
		case "wake":
			d.WakeUntil = fromMillis(r.n)
		case "waiting":
			d.Waiting += int(r.n)
		case "working":
			d.Working += int(r.n)
			d.Busy = append(d.Busy, r.holder)
		}
	}

	return d, nil
}

// FleetDecide writes how many workers there are to be.
func (s *sqlStore) FleetDecide(ctx context.Context, d FleetDecision) error {
	return s.write(ctx, "decide the fleet", func(t *tx) error {
		f, err := t.leadsFleet(d.Epoch)
		if err != nil {
			return err
		}
		if d.NeededAt.IsZero() {
			d.NeededAt = f.NeededAt
		}
		err = t.run(`UPDATE fleet SET desired = $1, reason = $2, changed_at = $3, needed_at = $4`, d.Desired, d.Reason, millis(t.now), millis(d.NeededAt))
		if err != nil {
			return err
		}
		f.Desired = d.Desired

		return t.fleetPoint(f, d.Demand, d.Reason)
	})
}

// FleetSeen writes what there is.
func (s *sqlStore) FleetSeen(ctx context.Context, g FleetSighting) error {
	return s.write(ctx, "see the fleet", func(t *tx) error {
		f, err := t.leadsFleet(g.Epoch)
		if err != nil {
			return err
		}
		if g.NeededAt.IsZero() {
			g.NeededAt = f.NeededAt
		}
		changed := f.Running != g.Running || f.Ready != g.Ready
		f.Running, f.Ready = g.Running, g.Ready
		err = t.run(`UPDATE fleet SET running = $1, ready = $2, seen_at = $3, needed_at = $4`, f.Running, f.Ready, millis(t.now), millis(g.NeededAt))
		if err != nil || !changed {
			return err
		}

		return t.fleetPoint(f, g.Demand, "")
	})
}

// leadsFleet reads the row for a change by the leader of this epoch.
func (t *tx) leadsFleet(epoch int64) (Fleet, error) {
	f, err := scanFleet(t.row(`SELECT ` + fleetColumns + ` FROM fleet` + t.forUpdate))
	if errors.Is(err, sql.ErrNoRows) || (err == nil && (f.Epoch != epoch || !f.LeaseUntil.After(t.now))) {
		return f, ErrLost
	}

	return f, err
}

// fleetPoint adds to the history and drops what is too old, by the primary key.
func (t *tx) fleetPoint(f Fleet, d FleetDemand, reason string) error {
	var id int64
	err := t.row(`INSERT INTO fleet_history (at, desired, running, ready, waiting, working, reason) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id`,
		millis(t.now), f.Desired, f.Running, f.Ready, d.Waiting, d.Working, reason).Scan(&id)
	if err != nil {
		return err
	}

	return t.run(`DELETE FROM fleet_history WHERE id <= $1`, id-fleetHistoryKept)
}

// FleetWake asks for a worker until the given time.
func (s *sqlStore) FleetWake(ctx context.Context, until time.Time) error {
	return s.write(ctx, "wake the fleet", func(t *tx) error {
		return t.run(`UPDATE fleet SET wake_until = $1 WHERE wake_until < $1`, millis(until))
	})
}

// FleetHistory lists points.
func (s *sqlStore) FleetHistory(ctx context.Context, since time.Time, limit int) ([]FleetPoint, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT at, desired, running, ready, waiting, working, reason FROM (
		SELECT id, at, desired, running, ready, waiting, working, reason FROM fleet_history WHERE at >= $1 ORDER BY id DESC LIMIT $2
		) AS newest ORDER BY id`, millis(since), limit)
	if err != nil {
		return nil, fmt.Errorf("fleet history: %w", err)
	}
	all, err := scanAll(rows, scanFleetPoint)
	if err != nil {
		return nil, fmt.Errorf("fleet history: %w", err)
	}

	return all, nil
}

func scanFleetPoint(r scanner) (FleetPoint, error) {
	var p FleetPoint
	var at int64
	err := r.Scan(&at, &p.Desired, &p.Running, &p.Ready, &p.Waiting, &p.Working, &p.Reason)
	p.At = fromMillis(at)

	return p, err
}
