package store

import (
	"context"
	"errors"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// end has the effects of a decision, in the transaction that made it: the credit of the round is kept or given back, the customer is
// told, and whoever waits is woken. Each happens once per round, however the decision came about. A round with a run leaves the notice
// to the run, which has things to do before it.
func (t *tx) end(id string, round int64, status Status) error {
	credit := t.refund
	if status == StatusDelivered {
		credit = t.settle
	}
	if err := credit(id, round); err != nil {
		return err
	}
	running, err := t.decideRun(id, round, status)
	if err == nil && !running {
		err = t.notice(id, round, status)
	}

	return errors.Join(err, t.enqueueRound(id, OutboxSettled, string(status), round))
}

// notice writes the notice of a round, once.
func (t *tx) notice(id string, round int64, status Status) error {
	_, _, err := t.once(roundKey(id, EffectNotice, round), nil, string(status), func() error {
		return t.enqueueRound(id, OutboxNotice, string(status), round)
	})

	return err
}

// ExpireUploads cancels analyses that were created before the given time and never submitted, with their refunds, at most limit, and
// returns how many. A submission that arrives in the same moment wins or finds the analysis cancelled.
func (s *sqlStore) ExpireUploads(ctx context.Context, before time.Time, limit int) (int, error) {
	n := 0
	err := s.write(ctx, "expire uploads", func(t *tx) error {
		n = 0
		rows, err := t.QueryContext(ctx, `SELECT `+analysisColumns+` FROM analyses WHERE status = 'uploading' AND created_at < $1
			ORDER BY created_at LIMIT $2`+t.forUpdate, millis(before), limit)
		if err != nil {
			return err
		}
		stale, err := scanAll(rows, scanAnalysis)
		for _, a := range stale {
			err = errors.Join(err, t.expire(a))
			n++
		}

		return err
	})

	return n, err
}

func (t *tx) expire(a Analysis) error {
	err := t.run(`UPDATE analyses SET status = 'cancelled', error_code = $2, error_message = 'the clips were never confirmed',
		updated_at = $3, settled_at = $3 WHERE id = $1`, a.ID, string(protocol.CodeInputMissing), millis(t.now))
	if err != nil {
		return err
	}

	return errors.Join(
		t.event(Event{AnalysisID: a.ID, Kind: EventCancelled, Detail: "the clips were never confirmed"}),
		t.end(a.ID, a.Round, StatusCancelled),
	)
}
