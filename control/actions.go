package control

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"regexp"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

// maxReasonLength bounds what a person writes about an action.
const maxReasonLength = 500

var idempotencyKey = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)

// actionRequest is the body of cancel, retry and redeliver; it may be absent.
type actionRequest struct {
	Round  *int64 `json:"round,omitempty" minimum:"0" doc:"The round that is meant; the last one if missing."`
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"Why, for the timeline."`
}

// deed carries out one kind of action in the store.
type deed func(ctx context.Context, a store.Action) (store.Analysis, bool, error)

// cancel, retry and redeliver are POST /v1/analyses/{id}/…: 202 with the analysis, also when it had been done before. Sending again is
// safe: the round, or the caller's Idempotency-Key, makes two requests one. A worker that is at a cancelled analysis is told; see recaller.
func (s *Server) cancel(w http.ResponseWriter, r *http.Request) error {
	return s.action(w, r, "cancel", s.store.CancelBy)
}

func (s *Server) retry(w http.ResponseWriter, r *http.Request) error {
	return s.action(w, r, "retry", s.store.Retry)
}

func (s *Server) redeliver(w http.ResponseWriter, r *http.Request) error {
	return s.action(w, r, "redeliver", s.redeliverNotice)
}

// redeliverNotice refuses where notices go nowhere.
func (s *Server) redeliverNotice(ctx context.Context, a store.Action) (store.Analysis, bool, error) {
	if s.cfg.NoticeURL == "" {
		return store.Analysis{}, false, refuse(http.StatusConflict, protocol.CodeConflict, "There is no address that notices go to: set POSEFLEET_NOTICE_URL.")
	}

	return s.store.Redeliver(ctx, a)
}

func (s *Server) action(w http.ResponseWriter, r *http.Request, name string, do deed) error {
	var request actionRequest
	if err := readJSON(w, r, maxRequestBytes, &request); err != nil {
		return err
	}
	a := store.Action{
		ID: r.PathValue("id"), Actor: callerOf(r).actor(), Reason: request.Reason, Round: request.Round, Key: r.Header.Get("Idempotency-Key"),
	}
	out, fresh, err := s.act(r.Context(), name, do, a)
	if err != nil {
		return err
	}
	if !fresh {
		w.Header().Set("Idempotent-Replayed", "true")
	}

	return answer(w, http.StatusAccepted, s.view(out))
}

// act checks and carries out an action, for the API and the page.
func (s *Server) act(ctx context.Context, name string, do deed, a store.Action) (store.Analysis, bool, error) {
	if a.Key != "" && !idempotencyKey.MatchString(a.Key) {
		return store.Analysis{}, false, badRequest("Idempotency-Key is 1 to 128 characters of A-Z, a-z, 0-9, dot, colon, _ and -")
	}
	if len(a.Reason) > maxReasonLength || a.Round != nil && *a.Round < 0 {
		return store.Analysis{}, false, badRequest("reason has at most %d bytes, and round is not negative", maxReasonLength)
	}
	if err := checkText(a.Reason); err != nil {
		return store.Analysis{}, false, err
	}
	out, fresh, err := do(ctx, a)
	if err != nil {
		return out, fresh, actionProblem(err)
	}
	s.log.InfoContext(ctx, "action", slog.String("analysis_id", a.ID), slog.String("action", name), slog.String("actor", a.Actor), slog.Bool("fresh", fresh))
	s.hub.notify(a.ID)
	s.relay.wakeUp()
	if out.Status == store.StatusCancelled {
		s.recaller.tell(a.ID)
	}

	return out, fresh, nil
}

func actionProblem(err error) error {
	var detail string
	switch {
	case errors.Is(err, store.ErrSettled):
		detail = "The analysis has been decided already."
	case errors.Is(err, store.ErrNotFailed):
		detail = "Only a failed analysis can be retried, and only its last round."
	case errors.Is(err, store.ErrOtherRound):
		detail = "The analysis is in another round."
	case errors.Is(err, store.ErrNoOutcome):
		detail = "This round has no outcome that could be told again."
	case errors.Is(err, store.ErrConflict):
		detail = "This Idempotency-Key came with another request before."
	default:
		return err
	}

	return refuse(http.StatusConflict, protocol.CodeConflict, detail)
}

// pageAction is POST /analyses/{id}/actions, the page's forms: it leads back to the page.
func (s *Server) pageAction(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxRequestBytes)
	id, name := r.PathValue("id"), r.PostFormValue("action")
	deeds := map[string]deed{"cancel": s.store.CancelBy, "retry": s.store.Retry, "redeliver": s.redeliverNotice}
	do, ok := deeds[name]
	if !ok {
		s.page.Fault(w, r, badRequest("There is no such action."))

		return
	}
	_, _, err := s.act(r.Context(), name, do, store.Action{
		ID: id, Actor: callerOf(r).actor(), Reason: r.PostFormValue("reason"), Key: r.PostFormValue("key"),
	})
	if err != nil {
		s.page.Fault(w, r, err)

		return
	}
	http.Redirect(w, r, "/analyses/"+id, http.StatusSeeOther)
}
