package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Effects of what people do to an analysis. Their outcome in the ledger is the person.
const (
	// EffectCancel, EffectRetry and EffectRedeliver have the key (analysis, round); EffectRedeliver's ends in how often it was asked for.
	EffectCancel    Effect = "action.cancel"
	EffectRetry     Effect = "action.retry"
	EffectRedeliver Effect = "action.redeliver"
	// EffectRequest is a request that carried an idempotency key of the caller's: (analysis, key).
	EffectRequest Effect = "action.request"
)

// ErrNotFailed, ErrNoOutcome and ErrOtherRound refuse an action that the analysis is not in the state for.
var (
	// ErrNotFailed: only a failed analysis can be retried.
	ErrNotFailed = errors.New("the analysis has not failed")
	// ErrNoOutcome: the round has not been decided, so that there is no notice of it.
	ErrNoOutcome = errors.New("the round has no outcome")
	// ErrOtherRound: the round that was to be cancelled is over, or has not begun.
	ErrOtherRound = errors.New("the analysis is in another round")
)

// Operating is the part of a Store that people use: they look, and they step in.
type Operating interface {
	// Analyses reads a page; see PageRequest.
	Analyses(ctx context.Context, r PageRequest) (Page, error)
	// Executions lists the executions of an analysis, oldest first, at most the newest 500.
	Executions(ctx context.Context, id string) ([]Execution, error)
	// CancelBy, Retry and Redeliver carry out an action once and tell whether they did now; see there for their errors.
	CancelBy(ctx context.Context, a Action) (Analysis, bool, error)
	Retry(ctx context.Context, a Action) (Analysis, bool, error)
	Redeliver(ctx context.Context, a Action) (Analysis, bool, error)
	// Open counts the analyses that have not been decided, by state.
	Open(ctx context.Context) (map[Status]int64, error)
	// Backlog measures the outbox by kind.
	Backlog(ctx context.Context) (map[OutboxKind]Backlog, error)
	// AddCensus keeps how the queue is, Censuses lists what was kept since a time, ForgetCensus removes what is older.
	AddCensus(ctx context.Context, c Census) error
	Censuses(ctx context.Context, since time.Time, limit int) ([]Census, error)
	ForgetCensus(ctx context.Context, before time.Time, limit int) (int, error)
	// Counts tells what the ledger did since the process began.
	Counts() map[Effect]LedgerCount
}

// Action is what a person wants to happen to an analysis.
type Action struct {
	ID string
	// Actor is who wants it, Reason why; both are for the timeline.
	Actor, Reason string
	// Round is the one that is meant; nil means the last one.
	Round *int64
	// Key is the caller's idempotency key, or "": then the round alone makes two requests one.
	Key string
}

// event is the line of the timeline.
func (a Action) event(kind string) Event {
	return Event{AnalysisID: a.ID, Kind: kind, Detail: a.Reason, Actor: a.Actor}
}

// Backlog is what waits of a kind in the outbox.
type Backlog struct {
	Entries int64
	Oldest  time.Time
}

// act carries out an action once: a request that comes again with its key finds that it has been carried out. The same key for another
// action is ErrConflict.
func (s *sqlStore) act(ctx context.Context, a Action, what string, do func(t *tx, now *Analysis) (bool, error)) (Analysis, bool, error) {
	var out Analysis
	var fresh bool
	err := s.write(ctx, what, func(t *tx) error {
		var err error
		if out, err = t.lockAnalysis(a.ID); err != nil {
			return err
		}
		if fresh, err = t.actOnce(a, what, func() (bool, error) { return do(t, &out) }); err != nil || !fresh {
			return err
		}
		out, err = t.analysis(a.ID)

		return err
	})

	return out, fresh, err
}

func (t *tx) actOnce(a Action, what string, do func() (bool, error)) (bool, error) {
	if a.Key == "" {
		return do()
	}
	body := what
	if a.Round != nil {
		body = fmt.Sprintf("%s %d", what, *a.Round)
	}
	var fresh bool
	_, _, err := t.once(LedgerKey{Scope: a.ID, Effect: EffectRequest, Instance: a.Key}, []byte(body), a.Actor, func() error {
		var err error
		fresh, err = do()

		return err
	})

	return fresh, err
}

// Cancel ends an analysis that has not been decided, in nobody's name; see CancelBy.
func (s *sqlStore) Cancel(ctx context.Context, id string) (Analysis, error) {
	a, _, err := s.CancelBy(ctx, Action{ID: id})

	return a, err
}

// CancelBy ends an analysis that has not been decided, and tells whether it did now. A cancelled one stays so; a delivered or failed one
// is ErrSettled. A request that means another round is ErrOtherRound: one that comes late must not end what somebody began since.
func (s *sqlStore) CancelBy(ctx context.Context, a Action) (Analysis, bool, error) {
	return s.act(ctx, a, "cancel analysis", func(t *tx, now *Analysis) (bool, error) {
		switch {
		case a.Round != nil && *a.Round != now.Round:
			return false, ErrOtherRound
		case now.Status == StatusCancelled:
			return false, nil
		case now.Status.Terminal():
			return false, ErrSettled
		}
		if a.Actor != "" {
			_, _, err := t.once(roundKey(a.ID, EffectCancel, now.Round), nil, a.Actor, func() error { return nil })
			if err != nil {
				return false, err
			}
		}

		return true, errors.Join(
			t.run(`UPDATE analyses SET status = 'cancelled', lease_until = 0, updated_at = $2, settled_at = $2 WHERE id = $1`, a.ID, millis(t.now)),
			t.event(a.event(EventCancelled)),
			t.end(a.ID, now.Round, StatusCancelled),
		)
	})
}

// Retry lets a failed analysis run again in a new round, which costs a credit as the first one did, and tells whether it did now.
// Asked again for the same round it changes nothing, whatever became of the new one. One that has not failed is ErrNotFailed.
func (s *sqlStore) Retry(ctx context.Context, a Action) (Analysis, bool, error) {
	return s.act(ctx, a, "retry analysis", func(t *tx, now *Analysis) (bool, error) {
		round := now.Round
		switch {
		case a.Round != nil:
			round = *a.Round
		case now.Status != StatusFailed && a.Key == "":
			// The retry that made it run again may have been this one, whose answer was lost. A key would have told.
			round--
		}
		if round < now.Round {
			return false, t.wasRetried(a.ID, round)
		}
		if round > now.Round || now.Status != StatusFailed {
			return false, ErrNotFailed
		}
		_, fresh, err := t.once(roundKey(a.ID, EffectRetry, round), nil, a.Actor, func() error { return t.retry(a, *now) })

		return fresh, err
	})
}

// wasRetried is ErrNotFailed unless a person let the round run again.
func (t *tx) wasRetried(id string, round int64) error {
	var n int
	err := t.row(`SELECT count(*) FROM ledger WHERE entry_key = $1`, roundKey(id, EffectRetry, round).String()).Scan(&n)
	if err == nil && n == 0 {
		err = ErrNotFailed
	}

	return err
}

func (t *tx) retry(a Action, now Analysis) error {
	round := now.Round + 1
	// A person decided on it: an account that is empty by now pays all the same.
	if err := t.reserve(a.ID, now.Account, round, true); err != nil {
		return err
	}

	return errors.Join(
		t.run(`UPDATE analyses SET status = 'queued', round = $2, lease_until = 0, updated_at = $3, settled_at = 0, result_id = '', result = NULL,
			error_code = '', error_message = '' WHERE id = $1`, a.ID, round, millis(t.now)),
		t.event(a.event(EventRetried)),
		t.retryRun(a.ID, round),
	)
}

// Redeliver has the notice of a round's outcome sent again: the same id, the same bytes. A notice that waits for its next try is tried
// at once instead, one that the run of the round has still to write is left to it, and of several requests within redeliverQuiet the first one
// counts: people press twice, and senders repeat. It tells whether this call did so. A round that has no outcome is ErrNoOutcome.
func (s *sqlStore) Redeliver(ctx context.Context, a Action) (Analysis, bool, error) {
	return s.act(ctx, a, "redeliver notice", func(t *tx, now *Analysis) (bool, error) {
		round := now.Round
		if a.Round != nil {
			round = *a.Round
		}
		outcome, at, err := t.noticeOf(*now, round)
		if errors.Is(err, errNoticeToCome) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		waiting, err := t.exec(`UPDATE outbox SET due_at = $3 WHERE analysis_id = $1 AND kind IN ('notice', 'renotice') AND round = $2`,
			a.ID, round, millis(t.now))
		if err != nil || waiting > 0 {
			return false, err
		}
		if a.Key == "" {
			if lately, err := t.redelivered(a.ID, round); err != nil || lately {
				return false, err
			}
		}

		return true, t.redeliver(a, round, outcome, at)
	})
}

// redeliverQuiet is the shortest time between two notices that people ask for, unless with keys of their own.
const redeliverQuiet = 5 * time.Second

// redelivered tells whether the notice of the round was sent again a moment ago. The keys end in milliseconds, of as many digits for
// centuries; "A" follows "@" in the order of bytes.
func (t *tx) redelivered(id string, round int64) (bool, error) {
	key := roundKey(id, EffectRedeliver, round).String()
	var n int
	err := t.row(`SELECT count(*) FROM ledger WHERE entry_key > $1 AND entry_key < $2`,
		fmt.Sprintf("%s@%d", key, millis(t.now.Add(-redeliverQuiet))), key+"A").Scan(&n)

	return n > 0, err
}

// redeliver writes the intent. It carries the time of the decision, as the first notice did.
func (t *tx) redeliver(a Action, round int64, outcome string, at int64) error {
	e := a.event(EventRedelivered)
	e.Detail = fmt.Sprintf("round %d, %s", round, outcome)
	if a.Reason != "" {
		e.Detail += ": " + a.Reason
	}
	key := roundKey(a.ID, EffectRedeliver, round)
	key.Instance += fmt.Sprintf("@%d", millis(t.now))
	_, _, err := t.once(key, nil, a.Actor, func() error {
		return errors.Join(t.event(e), t.run(`INSERT INTO outbox (analysis_id, kind, reason, round, due_at, created_at) VALUES ($1, $2, $3, $4, $5, $6)`,
			a.ID, string(OutboxRenotice), outcome, round, millis(t.now), at))
	})

	return err
}

// errNoticeToCome: the round was decided, and its run has not come to the notice.
var errNoticeToCome = errors.New("the notice of the round is still to come")

// noticeOf is what the notice of a round said, and which time it carried. One that its run has still to write is errNoticeToCome: sent before, it
// would carry another time under the same id.
func (t *tx) noticeOf(now Analysis, round int64) (string, int64, error) {
	var outcome string
	var at int64
	err := t.row(`SELECT outcome, at FROM ledger WHERE entry_key = $1`, roundKey(now.ID, EffectNotice, round).String()).Scan(&outcome, &at)
	if !errors.Is(err, sql.ErrNoRows) {
		return outcome, at, err
	}
	r, err := t.readRun(RunKey{AnalysisID: now.ID, Round: round})
	switch {
	case errors.Is(err, ErrUnknown) && round == now.Round && now.Status.Terminal(): // the ledger has forgotten it
		return string(now.Status), millis(now.SettledAt), nil
	case errors.Is(err, ErrUnknown), err == nil && r.Outcome == "":
		return "", 0, ErrNoOutcome
	case err == nil && r.EndedAt.IsZero():
		return "", 0, errNoticeToCome
	}

	return string(r.Outcome), millis(r.EndedAt), err // the ledger has forgotten it: the run ended with it
}
