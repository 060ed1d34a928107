package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Effect is a kind of thing that must happen once.
type Effect string

// Effects, with what makes two of one kind distinct in terms of the business. A round of an analysis begins with its creation and
// with every reopening by a person; it ends once, well or not.
const (
	// EffectReserve takes a credit for a round of an analysis, EffectSettle keeps it for good, EffectRefund gives it back. The key is
	// (analysis, round): whoever asks, and however often, one round costs one credit or none.
	EffectReserve Effect = "credit.reserve"
	EffectSettle  Effect = "credit.settle"
	EffectRefund  Effect = "credit.refund"
	// EffectNotice tells the customer how a round ended. The key is (analysis, round): one end, one notice.
	EffectNotice Effect = "notice"
	// EffectGrant gives credits to an account. The key is (account, the caller's idempotency key): the same order may be sent twice.
	EffectGrant Effect = "credit.grant"
)

// window is how long an entry is known. It is longer than anything may repeat the effect: for credits and notices, whose rows have
// guards of their own, than a customer's dispute; for a grant than a caller retries.
func (e Effect) window() time.Duration {
	switch e {
	case EffectReserve, EffectSettle, EffectRefund:
		return 400 * 24 * time.Hour
	case EffectNotice:
		return 90 * 24 * time.Hour
	default:
		return 30 * 24 * time.Hour
	}
}

// LedgerKey is what two arrivals of one effect have in common. Its text is SCOPE/EFFECT/INSTANCE.
type LedgerKey struct {
	// Scope is the analysis id, or "account:" and the account's.
	Scope  string
	Effect Effect
	// Instance tells effects of one kind in one scope apart: the round, or a caller's key.
	Instance string
}

// String is the key as it is stored.
func (k LedgerKey) String() string { return k.Scope + "/" + string(k.Effect) + "/" + k.Instance }

// roundKey is the key of an effect of a round of an analysis.
func roundKey(id string, e Effect, round int64) LedgerKey {
	return LedgerKey{Scope: id, Effect: e, Instance: strconv.FormatInt(round, 10)}
}

// LedgerEntry is an effect that has happened.
type LedgerEntry struct {
	Key LedgerKey
	// Outcome is what is given back to whoever asks for the effect again.
	Outcome string
	At      time.Time
	// Expires is when the key is forgotten: the effect could happen again.
	Expires time.Time
}

// once lets the effect happen if the key is new, in the transaction that writes the key, and tells whether it did. A known key gives
// back the outcome of the first time; with another body it is ErrConflict. An effect that fails leaves no entry.
func (t *tx) once(k LedgerKey, body []byte, outcome string, effect func() error) (string, bool, error) {
	expires := t.now.Add(k.Effect.window())
	rows, err := t.exec(`INSERT INTO ledger (entry_key, digest, outcome, at, expires_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (entry_key) DO UPDATE SET digest = excluded.digest, outcome = excluded.outcome, at = excluded.at,
		expires_at = excluded.expires_at WHERE ledger.expires_at <= excluded.at`,
		k.String(), shortDigest(body), outcome, millis(t.now), millis(expires))
	if err != nil {
		return "", false, err
	}
	if rows == 0 && ledgerSuppresses {
		t.asked = append(t.asked, ledgerAnswer{effect: k.Effect})
		outcome, err = t.known(k, body)

		return outcome, false, err
	}
	t.asked = append(t.asked, ledgerAnswer{effect: k.Effect, happened: true})

	return outcome, true, effect()
}

// known reads what a key's first time came to.
func (t *tx) known(k LedgerKey, body []byte) (string, error) {
	var had []byte
	var outcome string
	if err := t.row(`SELECT digest, outcome FROM ledger WHERE entry_key = $1`, k.String()).Scan(&had, &outcome); err != nil {
		return "", err
	}
	if string(had) != string(shortDigest(body)) {
		return "", ErrConflict
	}

	return outcome, nil
}

// shortDigest is half of a SHA-256: it tells a repeat from an honest mistake, and saves half the space of every entry.
func shortDigest(body []byte) []byte {
	sum := sha256.Sum256(body)

	return sum[:16]
}

// Ledger lists the entries of a scope in the order of their keys, expired ones too while they are there.
func (s *sqlStore) Ledger(ctx context.Context, scope string) ([]LedgerEntry, error) {
	// "0" follows "/" in the order of bytes.
	rows, err := s.reader.QueryContext(ctx, `SELECT entry_key, outcome, at, expires_at FROM ledger
		WHERE entry_key >= $1 AND entry_key < $2 ORDER BY entry_key LIMIT $3`, scope+"/", scope+"0", timelineLimit)
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	all, err := scanAll(rows, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}

	return all, nil
}

func scanEntry(r scanner) (LedgerEntry, error) {
	var e LedgerEntry
	var key string
	var at, expires int64
	err := r.Scan(&key, &e.Outcome, &at, &expires)
	e.Key.Scope, key, _ = strings.Cut(key, "/")
	effect, instance, _ := strings.Cut(key, "/")
	e.Key.Effect, e.Key.Instance = Effect(effect), instance
	e.At, e.Expires = fromMillis(at), fromMillis(expires)

	return e, err
}

// ForgetLedger removes expired entries, oldest first, by their index: the cost is that of the rows removed. It only gives back space:
// an expired entry counts as absent from its time on.
func (s *sqlStore) ForgetLedger(ctx context.Context, limit int) (int, error) {
	var n int64
	err := s.write(ctx, "forget ledger entries", func(t *tx) error {
		var err error
		n, err = t.exec(`DELETE FROM ledger WHERE entry_key IN (SELECT entry_key FROM ledger WHERE expires_at <= $1
			ORDER BY expires_at LIMIT $2)`, millis(t.now), limit)

		return err
	})

	return int(n), err
}
