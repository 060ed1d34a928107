package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// OutboxClaim says which entries somebody takes on.
type OutboxClaim struct {
	// Owner is who takes them, different from all others.
	Owner string
	Kinds []OutboxKind
	Limit int
	// Lease is how long they stay with the owner unless it renews; after that they are anybody's.
	Lease time.Duration
	// Fresh leaves out what has been tried before.
	Fresh bool
}

const (
	outboxColumns = `id, analysis_id, kind, reason, round, tries, created_at, claimed_by`
	// outboxTurn: an entry has its turn when there is no older one of these kinds for its analysis.
	outboxTurn = ` AND NOT EXISTS (SELECT 1 FROM outbox e WHERE e.analysis_id = o.analysis_id AND e.id < o.id AND e.kind IN `
)

// Outbox lists entries of these kinds that are due, oldest first, whoever has them.
func (s *sqlStore) Outbox(ctx context.Context, limit int, kinds ...OutboxKind) ([]OutboxEntry, error) {
	where, args := "", []any{millis(s.now()), limit}
	if len(kinds) > 0 {
		where = " AND o.kind IN " + marks(&args, kinds)
	}

	return s.outbox(ctx, "read outbox", `SELECT `+outboxColumns+` FROM outbox o WHERE o.due_at <= $1`+where+` ORDER BY o.due_at, o.id LIMIT $2`, args)
}

// ClaimOutbox takes on entries that are due and nobody's, oldest first. Of several for one analysis it takes the oldest alone: the next has its
// turn when that one is gone.
func (s *sqlStore) ClaimOutbox(ctx context.Context, c OutboxClaim) ([]OutboxEntry, error) {
	where, args := s.claimable(c)
	// Most looks find nothing; those need no transaction that writes.
	found, err := s.outbox(ctx, "read outbox", `SELECT `+outboxColumns+` FROM outbox o`+where, args)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	skipLocked := ""
	if s.forUpdate != "" {
		skipLocked = " FOR UPDATE OF o SKIP LOCKED"
	}
	var all []OutboxEntry
	err = s.write(ctx, "claim outbox", func(t *tx) error {
		args[0] = millis(t.now)
		with := append(slices.Clone(args), c.Owner, millis(t.now.Add(c.Lease)))
		rows, err := t.QueryContext(ctx, fmt.Sprintf(`WITH mine (mine) AS MATERIALIZED (SELECT o.id FROM outbox o%s%s)
			UPDATE outbox AS o SET claimed_by = $%d, claimed_until = $%d FROM mine WHERE o.id = mine.mine RETURNING %s`,
			where, skipLocked, len(with)-1, len(with), outboxColumns), with...)
		if err != nil {
			return err
		}
		all, err = scanAll(rows, scanOutbox)

		return err
	})
	slices.SortFunc(all, func(a, b OutboxEntry) int { return cmp.Compare(a.ID, b.ID) })

	return all, err
}

// claimable is what may be claimed, read by an index in its order: of one kind nothing is read in vain but what is claimed by others.
func (s *sqlStore) claimable(c OutboxClaim) (where string, args []any) {
	args = []any{millis(s.now()), c.Limit}
	kinds := marks(&args, c.Kinds)
	where = ` WHERE o.kind IN ` + kinds + ` AND o.due_at <= $1 AND ` + unclaimed
	if c.Fresh {
		where += ` AND o.tries = 0`
	}

	return where + outboxTurn + kinds + `) ORDER BY o.due_at, o.id LIMIT $2`, args
}

// RenewOutbox moves the end of the owner's claims on these entries.
func (s *sqlStore) RenewOutbox(ctx context.Context, owner string, lease time.Duration, ids []int64) error {
	return s.write(ctx, "renew outbox", func(t *tx) error {
		args := []any{owner, millis(t.now.Add(lease))}
		list := marks(&args, ids)

		return t.run(`UPDATE outbox SET claimed_until = $2 WHERE claimed_by = $1 AND id IN `+list, args...)
	})
}

// ReleaseOutbox gives all the owner's claims back. Without an owner it is for the start of a process: in SQLite, which is for one process, all
// claims are of processes that are gone; in Postgres nobody knows.
func (s *sqlStore) ReleaseOutbox(ctx context.Context, owner string) error {
	if owner == "" {
		return s.releaseOrphans(ctx)
	}

	return s.write(ctx, "release outbox", func(t *tx) error {
		return t.run(`UPDATE outbox SET claimed_by = '', claimed_until = 0 WHERE claimed_by = $1`, owner)
	})
}

func (s *sqlStore) releaseOrphans(ctx context.Context) error {
	if s.forUpdate != "" { // Postgres
		return nil
	}

	return s.write(ctx, "release outbox", func(t *tx) error {
		return t.run(`UPDATE outbox SET claimed_by = '', claimed_until = 0 WHERE claimed_by <> ''`)
	})
}

// OutboxDone removes an entry. Another relay may have been faster; then there is nothing to note.
func (s *sqlStore) OutboxDone(ctx context.Context, e OutboxEntry) error {
	return s.write(ctx, "outbox done", func(t *tx) error {
		rows, err := t.exec(`DELETE FROM outbox WHERE id = $1`, e.ID)
		if err != nil || rows == 0 || (e.Kind != OutboxDispatch && e.Kind != OutboxDoor) {
			return err
		}
		detail := e.Reason
		if e.Kind == OutboxDoor {
			detail += ", by HTTP"
		}

		return t.event(Event{AnalysisID: e.AnalysisID, Kind: EventDispatched, Detail: detail})
	})
}

// OutboxFailed puts the entry off and gives it back, unless somebody else has taken it on meanwhile.
func (s *sqlStore) OutboxFailed(ctx context.Context, e OutboxEntry, retryIn time.Duration) error {
	return s.write(ctx, "outbox failed", func(t *tx) error {
		return t.run(`UPDATE outbox SET tries = tries + 1, due_at = $2, claimed_by = '', claimed_until = 0 WHERE id = $1 AND claimed_by = $3`,
			e.ID, millis(t.now.Add(retryIn)), e.Owner)
	})
}

// marks adds the values to the arguments and returns the list that stands for them.
func marks[T any](args *[]any, values []T) string {
	var all []string
	for _, v := range values {
		*args = append(*args, v)
		all = append(all, fmt.Sprintf("$%d", len(*args)))
	}

	return "(" + strings.Join(all, ", ") + ")"
}

func (s *sqlStore) outbox(ctx context.Context, op, query string, args []any) ([]OutboxEntry, error) {
	rows, err := s.reader.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	all, err := scanAll(rows, scanOutbox)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}

	return all, nil
}

func scanOutbox(r scanner) (OutboxEntry, error) {
	var e OutboxEntry
	var at int64
	err := r.Scan(&e.ID, &e.AnalysisID, &e.Kind, &e.Reason, &e.Round, &e.Tries, &at, &e.Owner)
	e.CreatedAt = fromMillis(at)

	return e, err
}
