package control

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

// result is POST /v1/results/{id}, the callback of every claim.
func (s *Server) result(w http.ResponseWriter, r *http.Request, m message) error {
	post, err := readResult(m)
	if err != nil {
		return err
	}
	if a := post.Result.Data.Artifact; post.Result.Type == protocol.ResultCompleted {
		switch stored, err := s.isStored(r.Context(), *a); {
		case err != nil:
			return unavailable("The storage can't be reached.", err)
		case !stored:
			return refuse(http.StatusUnprocessableEntity, protocol.CodeResultRefused, "The artifact is not in storage.")
		}
	}
	verdict, err := s.store.RecordResult(r.Context(), post)
	if err != nil {
		return resultProblem(err)
	}
	s.log.InfoContext(r.Context(), "result", slog.String("analysis_id", m.analysisID), slog.String("type", string(post.Result.Type)),
		slog.Int64("epoch", post.Result.Data.Epoch), slog.String("worker_id", post.Result.Data.WorkerID),
		slog.String("decision", string(verdict.Decision)), slog.Bool("repeat", verdict.Repeat), slog.String("status", string(verdict.Status)))
	s.metrics.results.WithLabelValues(string(post.Result.Type), string(verdict.Decision)).Inc()
	s.hub.notify(m.analysisID)
	s.relay.wakeUp()

	return answerVerdict(w, post.Result.Type, verdict)
}

// readResult reads the body and holds it against the path and the webhook id.
func readResult(m message) (store.ResultPost, error) {
	result, err := protocol.ParseResult(m.body)
	if err == nil {
		err = m.of(result.Data.AnalysisID)
	}
	if err == nil {
		err = checkNames(result.Data.WorkerID)
	}
	if err != nil {
		return store.ResultPost{}, err
	}
	if m.webhookID != protocol.ResultID(result.Type, result.Data.AnalysisID, result.Data.Epoch) {
		return store.ResultPost{}, refuse(http.StatusUnprocessableEntity, protocol.CodeResultRefused,
			"The webhook-id is not the one of this result.")
	}
	if result.Data.Artifact != nil {
		result.Data.Artifact.SHA256 = strings.ToLower(result.Data.Artifact.SHA256)
	}
	if e := result.Data.Error; e != nil {
		// A database keeps text without NUL.
		e.Message = strings.ReplaceAll(strings.ToValidUTF8(e.Message, "\uFFFD"), "\x00", "\uFFFD")
		e.Code = protocol.Code(strings.ReplaceAll(string(e.Code), "\x00", ""))
	}

	return store.ResultPost{WebhookID: m.webhookID, Body: m.body, Result: result}, nil
}

func resultProblem(err error) error {
	switch {
	case errors.Is(err, store.ErrConflict):
		// Conceded: whatever was recorded under this id stands.
		return refuse(http.StatusConflict, protocol.CodeConflict, "This webhook-id came with another body before, which stands.")
	case errors.Is(err, store.ErrUnissued):
		return refuse(http.StatusUnprocessableEntity, protocol.CodeResultRefused,
			"Claim, epoch or artifact were never given out for this analysis.")
	}

	return err
}

// answerVerdict tells the worker what became of its result.
func answerVerdict(w http.ResponseWriter, kind protocol.ResultType, v store.Verdict) error {
	switch {
	case v.Decision == store.DecisionSuperseded:
		return refuse(http.StatusConflict, protocol.CodeConflict, "A newer execution decides about this analysis.")
	case v.Decision == store.DecisionConceded && v.Status == store.StatusCancelled:
		return goneProblem(v.Status)
	}
	delivered := v.Decision == store.DecisionConceded || (v.Repeat && kind != protocol.ResultInterrupted)

	return answer(w, http.StatusOK, protocol.ResultAnswer{AlreadyDelivered: delivered})
}
