package control

import (
	"context"
	"encoding/json"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

// analysisView is an analysis as operators and the page see it. It holds no claim and no signed URL.
type analysisView struct {
	AnalysisID string             `json:"analysisId"`
	Account    string             `json:"account"`
	Status     store.Status       `json:"status"`
	Params     json.RawMessage    `json:"params"`
	Clips      []clipView         `json:"clips"`
	Round      int64              `json:"round"`
	Epoch      int64              `json:"epoch"`
	Holder     *holderView        `json:"holder,omitempty"`
	LeaseUntil *time.Time         `json:"leaseUntil,omitempty"`
	Result     json.RawMessage    `json:"result,omitempty"`
	ResultID   string             `json:"resultId,omitempty"`
	Artifact   *protocol.Artifact `json:"artifact,omitempty"`
	ErrorCode  protocol.Code      `json:"errorCode,omitempty"`
	Error      string             `json:"error,omitempty"`
	CreatedAt  time.Time          `json:"createdAt"`
	UpdatedAt  time.Time          `json:"updatedAt"`
	SettledAt  *time.Time         `json:"settledAt,omitempty"`
	// Timeline, Executions, Credits, Ledger and Runs are there for one analysis, not in lists.
	Timeline   []eventView     `json:"timeline,omitempty"`
	Executions []executionView `json:"executions,omitempty"`
	Credits    []creditView    `json:"credits,omitempty"`
	Ledger     []entryView     `json:"ledger,omitempty"`
	Runs       []runView       `json:"runs,omitempty"`
}

type clipView struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	Size        int64  `json:"size"`
	SHA256      string `json:"sha256"`
	ContentType string `json:"contentType"`
}

type holderView struct {
	WorkerID string          `json:"workerId"`
	Source   protocol.Source `json:"source"`
	JobID    string          `json:"jobId"`
	Attempt  int             `json:"attempt"`
}

type eventView struct {
	At     time.Time   `json:"at"`
	Kind   string      `json:"kind"`
	Epoch  int64       `json:"epoch,omitempty"`
	Holder *holderView `json:"holder,omitempty"`
	Detail string      `json:"detail,omitempty"`
	Actor  string      `json:"actor,omitempty" doc:"The person who did it."`
}

// executionView is one epoch: a claim and what came of it.
type executionView struct {
	Epoch     int64       `json:"epoch"`
	Holder    *holderView `json:"holder"`
	StartedAt time.Time   `json:"startedAt"`
	EndedAt   *time.Time  `json:"endedAt,omitempty"`
	End       string      `json:"end" doc:"running, delivered, failed, released, interrupted, lease_lapsed, taken_over, lost (its lease ran out) or decided (by another execution or a person)."`
	Detail    string      `json:"detail,omitempty"`
	Late      string      `json:"late,omitempty" doc:"What became of a result that came after the end."`
}

// runView is the durable run of one round.
type runView struct {
	Round     int64           `json:"round"`
	Reason    store.RunReason `json:"reason"`
	Stage     string          `json:"stage"`
	Way       store.Way       `json:"way,omitempty"`
	Retries   int             `json:"retries"`
	StartedAt time.Time       `json:"startedAt"`
	EndedAt   *time.Time      `json:"endedAt,omitempty"`
}

// creditView is what became of the credit of one round.
type creditView struct {
	Round      int64             `json:"round"`
	Account    string            `json:"account"`
	State      store.CreditState `json:"state"`
	ReservedAt time.Time         `json:"reservedAt"`
	ClosedAt   *time.Time        `json:"closedAt,omitempty"`
}

// entryView is an effect that has happened, and with which outcome.
type entryView struct {
	Effect   store.Effect `json:"effect"`
	Instance string       `json:"instance"`
	Outcome  string       `json:"outcome"`
	At       time.Time    `json:"at"`
	Expires  time.Time    `json:"expires"`
}

func (s *Server) view(a store.Analysis) analysisView {
	v := analysisView{
		AnalysisID: a.ID, Account: a.Account, Status: a.Status, Params: a.Params, Clips: []clipView{}, Round: a.Round, Epoch: a.Epoch, Holder: viewHolder(a.Holder),
		LeaseUntil: optionalTime(a.LeaseUntil), Result: a.Result, ResultID: a.ResultID, Artifact: a.Artifact,
		ErrorCode: a.ErrorCode, Error: a.ErrorMessage, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt, SettledAt: optionalTime(a.SettledAt),
	}
	for _, c := range a.Clips {
		v.Clips = append(v.Clips, clipView{ID: c.ID, Name: c.Name, Size: c.Size, SHA256: c.SHA256, ContentType: c.ContentType})
	}

	return v
}

// fullView reads one analysis with its timeline.
func (s *Server) fullView(ctx context.Context, id string) (analysisView, error) {
	a, err := s.store.Analysis(ctx, id)
	if err != nil {
		return analysisView{}, err
	}
	events, err := s.store.Timeline(ctx, id)
	if err != nil {
		return analysisView{}, err
	}
	v := s.view(a)
	if err := s.addExecutions(ctx, &v); err != nil {
		return v, err
	}
	for _, e := range events {
		v.Timeline = append(v.Timeline, eventView{At: e.At, Kind: e.Kind, Epoch: e.Epoch, Holder: viewHolder(e.Holder), Detail: e.Detail, Actor: e.Actor})
	}

	return v, s.addEffects(ctx, &v)
}

// addExecutions fills in who worked on it, and how far its runs have come.
func (s *Server) addExecutions(ctx context.Context, v *analysisView) error {
	executions, err := s.store.Executions(ctx, v.AnalysisID)
	if err != nil {
		return err
	}
	for _, x := range executions {
		v.Executions = append(v.Executions, executionView{
			Epoch: x.Epoch, Holder: viewHolder(x.Holder), StartedAt: x.Started, EndedAt: optionalTime(x.Ended), End: x.End, Detail: x.Detail, Late: x.Late,
		})
	}
	runs, err := s.store.AnalysisRuns(ctx, v.AnalysisID)
	for _, r := range runs {
		v.Runs = append(v.Runs, runView{
			Round: r.Round, Reason: r.Reason, Stage: r.Stage.String(), Way: r.Way, Retries: r.Retries,
			StartedAt: r.CreatedAt, EndedAt: optionalTime(r.EndedAt),
		})
	}

	return err
}

// addEffects fills in what the analysis cost and caused.
func (s *Server) addEffects(ctx context.Context, v *analysisView) error {
	credits, err := s.store.Credits(ctx, v.AnalysisID)
	if err != nil {
		return err
	}
	for _, c := range credits {
		v.Credits = append(v.Credits, creditView{
			Round: c.Round, Account: c.Account, State: c.State, ReservedAt: c.Reserved, ClosedAt: optionalTime(c.Closed),
		})
	}
	entries, err := s.store.Ledger(ctx, v.AnalysisID)
	for _, e := range entries {
		v.Ledger = append(v.Ledger, entryView{Effect: e.Key.Effect, Instance: e.Key.Instance, Outcome: e.Outcome, At: e.At, Expires: e.Expires})
	}

	return err
}

func viewHolder(h store.Holder) *holderView {
	if h == (store.Holder{}) {
		return nil
	}

	return &holderView{WorkerID: h.WorkerID, Source: h.Source, JobID: h.JobID, Attempt: h.Attempt}
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}

	return &t
}
