package control

import (
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

// maxRequestBytes bounds the bodies of redeem, renew, release and artifact.
const maxRequestBytes = 64 * 1024

// message is a request of a worker whose signature is right.
type message struct {
	// analysisID is that of the path; the body has to carry the same.
	analysisID string
	webhookID  string
	body       []byte
}

// of checks that the signed body is about the analysis of the path, which is not signed.
func (m message) of(analysisID string) error {
	if m.analysisID != analysisID {
		return refuse(http.StatusBadRequest, protocol.CodeInvalidRequest, "The body is about another analysis than the path.")
	}

	return nil
}

// signed reads and verifies a worker's request of at most limit bytes.
func (s *Server) signed(limit int64, h func(w http.ResponseWriter, r *http.Request, m message) error) http.HandlerFunc {
	return s.answering(func(w http.ResponseWriter, r *http.Request) error {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
		if err != nil {
			return readFault(err)
		}
		id, err := s.verifier.Verify(r.Header, body)
		if err != nil {
			s.logRefusal(r, err)

			return err
		}

		return h(w, r, message{analysisID: r.PathValue("id"), webhookID: id, body: body})
	})
}

// logRefusal says why a signature was refused, which the caller is not told. Loudly, because a worker with another secret or a wrong
// clock gets no work done; the fingerprints are there to be compared with those in the worker's log.
func (s *Server) logRefusal(r *http.Request, err error) {
	s.log.WarnContext(r.Context(), "a worker's signature was refused", slog.String("route", r.Pattern), slog.Any("reason", errors.Unwrap(err)),
		slog.Any("worker_secrets", webhook.Fingerprints(s.cfg.WorkerSecrets)))
}

// readFault tells a body that is too large from one that never arrived.
func readFault(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return err
	}

	return &problem{status: http.StatusBadRequest, code: protocol.CodeInvalidRequest, detail: "The body could not be read.", cause: err}
}
