package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// DefaultAccount pays for analyses that name no account.
const DefaultAccount = "default"

// ErrNoCredit says that the account has no credit left.
var ErrNoCredit = errors.New("no credit left")

// Account is who pays.
type Account struct {
	ID string
	// Credits are those left, reserved ones not counted; nil for an account that nobody has granted any to: it is not limited.
	Credits *int64
	// Reserved, Settled and Refunded count rounds of analyses.
	Reserved, Settled, Refunded int64
}

// CreditState is what became of the credit of one round.
type CreditState string

// States of a credit.
//
//	         delivered
//	reserved ─────────▶ settled
//	    └─────────────▶ refunded
//	    failed, cancelled, never uploaded
const (
	CreditReserved CreditState = "reserved"
	CreditSettled  CreditState = "settled"
	CreditRefunded CreditState = "refunded"
)

// Credit is the credit of one round of an analysis.
type Credit struct {
	Round    int64
	Account  string
	State    CreditState
	Reserved time.Time
	// Closed is zero while it is reserved.
	Closed time.Time
}

// CreditGrant is an order of credits. Key is the caller's idempotency key.
type CreditGrant struct {
	Account string
	Key     string
	Credits int64
}

// GrantCredits gives credits to an account and limits it from then on. The same key with the same number changes nothing; with another
// number it is ErrConflict. It returns whether the credits were given now.
func (s *sqlStore) GrantCredits(ctx context.Context, g CreditGrant) (Account, bool, error) {
	var fresh bool
	err := s.write(ctx, "grant credits", func(t *tx) error {
		number := strconv.FormatInt(g.Credits, 10)
		key := LedgerKey{Scope: "account:" + g.Account, Effect: EffectGrant, Instance: g.Key}
		var err error
		_, fresh, err = t.once(key, []byte(number), number, func() error {
			return t.run(`INSERT INTO accounts (id, credits, created_at, updated_at) VALUES ($1, $2, $3, $3)
				ON CONFLICT (id) DO UPDATE SET credits = COALESCE(accounts.credits, 0) + excluded.credits, updated_at = excluded.updated_at`,
				g.Account, g.Credits, millis(t.now))
		})

		return err
	})
	if err != nil {
		return Account{}, false, err
	}
	a, err := s.Account(ctx, g.Account)

	return a, fresh, err
}

// Account reads an account. One that nobody has heard of is not limited and has no rounds.
func (s *sqlStore) Account(ctx context.Context, id string) (Account, error) {
	a := Account{ID: id}
	err := s.reader.QueryRowContext(ctx, `SELECT credits FROM accounts WHERE id = $1`, id).Scan(&a.Credits)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return a, fmt.Errorf("read account: %w", err)
	}
	rows, err := s.reader.QueryContext(ctx, `SELECT state, count(*) FROM credits WHERE account = $1 GROUP BY state`, id)
	if err != nil {
		return a, fmt.Errorf("read account: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var state CreditState
		var n int64
		if err := rows.Scan(&state, &n); err != nil {
			return a, fmt.Errorf("read account: %w", err)
		}
		a.count(state, n)
	}

	return a, rows.Err()
}

func (a *Account) count(state CreditState, n int64) {
	switch state {
	case CreditReserved:
		a.Reserved = n
	case CreditSettled:
		a.Settled = n
	case CreditRefunded:
		a.Refunded = n
	}
}

// Credits lists the credits of an analysis, one for each round.
func (s *sqlStore) Credits(ctx context.Context, id string) ([]Credit, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT round, account, state, reserved_at, closed_at FROM credits
		WHERE analysis_id = $1 ORDER BY round`, id)
	if err != nil {
		return nil, fmt.Errorf("list credits: %w", err)
	}
	all, err := scanAll(rows, func(r scanner) (Credit, error) {
		var c Credit
		var reserved, closed int64
		err := r.Scan(&c.Round, &c.Account, &c.State, &reserved, &closed)
		c.Reserved, c.Closed = fromMillis(reserved), fromMillis(closed)

		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("list credits: %w", err)
	}

	return all, nil
}

// reserve takes a credit for a round. anyway takes it from an empty account too: a person wants the round.
func (t *tx) reserve(id, account string, round int64, anyway bool) error {
	_, _, err := t.once(roundKey(id, EffectReserve, round), []byte(account), account, func() error {
		taken, err := t.debit(account, anyway)
		if err != nil {
			return err
		}

		return t.run(`INSERT INTO credits (analysis_id, round, account, state, reserved_at, taken) VALUES ($1, $2, $3, 'reserved', $4, $5)`,
			id, round, account, millis(t.now), taken)
	})

	return err
}

// debit takes one credit from a limited account and returns how many it took. Accounts without a limit are only read, so that nobody waits for
// their row.
func (t *tx) debit(account string, anyway bool) (taken int64, err error) {
	var left *int64
	err = t.row(`SELECT credits FROM accounts WHERE id = $1`, account).Scan(&left)
	if errors.Is(err, sql.ErrNoRows) || (err == nil && left == nil) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	least := int64(1)
	if anyway {
		least = -1 << 62
	}
	rows, err := t.exec(`UPDATE accounts SET credits = credits - 1, updated_at = $2 WHERE id = $1 AND credits >= $3`, account, millis(t.now), least)
	if err == nil && rows == 0 {
		err = ErrNoCredit
	}

	return rows, err
}

// settle keeps the credit of a round that delivered.
func (t *tx) settle(id string, round int64) error {
	_, _, err := t.once(roundKey(id, EffectSettle, round), nil, string(CreditSettled), func() error {
		_, _, err := t.closeCredit(id, round, CreditSettled)

		return err
	})

	return err
}

// refund gives the credit of a round back that came to nothing. A round that was begun before the account had a limit took none.
func (t *tx) refund(id string, round int64) error {
	_, _, err := t.once(roundKey(id, EffectRefund, round), nil, string(CreditRefunded), func() error {
		account, taken, err := t.closeCredit(id, round, CreditRefunded)
		if err != nil || taken == 0 {
			return err
		}

		return t.run(`UPDATE accounts SET credits = credits + $3, updated_at = $2 WHERE id = $1 AND credits IS NOT NULL`, account, millis(t.now), taken)
	})

	return err
}

// closeCredit ends a reservation and returns whose it was and how much it took; nothing where there is none that is open, as for analyses from
// before credits.
func (t *tx) closeCredit(id string, round int64, state CreditState) (account string, taken int64, err error) {
	err = t.row(`UPDATE credits SET state = $3, closed_at = $4 WHERE analysis_id = $1 AND round = $2 AND `+creditOpen+` RETURNING account, taken`,
		id, round, string(state), millis(t.now)).Scan(&account, &taken)
	if errors.Is(err, sql.ErrNoRows) {
		return "", 0, nil
	}

	return account, taken, err
}
