package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

// problem is a refusal that the caller gets as a problem document.
type problem struct {
	status int
	code   protocol.Code
	detail string
	reason protocol.GoneReason
	// retryAfter is the header, rounded up to whole seconds; 0 means none.
	retryAfter time.Duration
	// cause is for the log only.
	cause error
}

// Error is for the log.
func (p *problem) Error() string { return string(p.code) + ": " + p.detail }

// Unwrap returns the cause.
func (p *problem) Unwrap() error { return p.cause }

func refuse(status int, code protocol.Code, detail string) *problem {
	return &problem{status: status, code: code, detail: detail}
}

// unknownAnalysis is the 404 of everything that names an analysis.
func unknownAnalysis() *problem {
	return refuse(http.StatusNotFound, protocol.CodeUnknownAnalysis, "There is no analysis with this id.")
}

// unavailable is a fault of ours that time may heal.
func unavailable(detail string, cause error) *problem {
	return &problem{
		status: http.StatusServiceUnavailable, code: protocol.CodeInternal, detail: detail, retryAfter: 5 * time.Second, cause: cause,
	}
}

// asProblem says what an error means to the caller.
func asProblem(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if f, ok := errors.AsType[*protocol.Fault](err); ok {
		return faultProblem(f)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return refuse(http.StatusRequestEntityTooLarge, protocol.CodeRequestTooLarge, "The body is too large.")
	}
	switch {
	case errors.Is(err, store.ErrUnknown):
		return unknownAnalysis()
	case errors.Is(err, store.ErrBadCursor):
		return refuse(http.StatusBadRequest, protocol.CodeInvalidRequest, "The cursor is none that a page gave out.")
	case errors.Is(err, context.Canceled):
		// The caller is gone and will not read it.
		return unavailable("The request was given up.", nil)
	}

	return unavailable("The request could not be carried out; try again.", err)
}

func faultProblem(f *protocol.Fault) *problem {
	status := http.StatusBadRequest
	switch f.Code {
	case protocol.CodeUnauthorized:
		status = http.StatusUnauthorized
	case protocol.CodeUnknownAnalysis, protocol.CodeNotFound:
		status = http.StatusNotFound
	case protocol.CodeRequestTooLarge:
		status = http.StatusRequestEntityTooLarge
	}

	return &problem{status: status, code: f.Code, detail: f.Message, cause: f.Cause}
}

// write sends the problem document.
func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", protocol.ProblemContentType)
	h.Set("Cache-Control", "no-store")
	h.Del("ETag")
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retryAfter.Seconds()))))
	}
	if p.status == http.StatusUnauthorized && h.Get("WWW-Authenticate") == "" {
		h.Set("WWW-Authenticate", "StandardWebhooks")
	}
	w.WriteHeader(p.status)
	// The caller may be gone; nothing depends on the text.
	_ = json.NewEncoder(w).Encode(protocol.Problem{
		Type: "about:blank", Title: http.StatusText(p.status), Status: p.status, Detail: p.detail, Code: p.code, Reason: p.reason,
	})
}

// handler is an HTTP handler that may fail.
type handler func(w http.ResponseWriter, r *http.Request) error

// answering turns a handler's error into a problem document, and logs those that are faults of ours.
func (s *Server) answering(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := h(w, r)
		if err == nil {
			return
		}
		p := asProblem(err)
		if p.status >= 500 && p.cause != nil {
			s.log.ErrorContext(r.Context(), "request failed", slog.String("route", r.Pattern), slog.Any("error", p.cause))
		}
		p.write(w)
	}
}

// answerTagged sends a JSON document that a caller may know already: with its ETag in If-None-Match it is a 304.
func answerTagged(w http.ResponseWriter, r *http.Request, body any) error {
	return answerTaggedAs(w, r, body, body)
}

// answerTaggedAs is answerTagged with the tag of another document: what differs between the two does not matter to a caller who knows it.
func answerTaggedAs(w http.ResponseWriter, r *http.Request, tagged, body any) error {
	text, err := json.Marshal(tagged)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	if text, err = json.Marshal(body); err != nil {
		return err
	}
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	h := w.Header()
	h.Set("ETag", tag)
	h.Set("Cache-Control", "private, no-cache")
	for known := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		if strings.TrimPrefix(strings.TrimSpace(known), "W/") == tag {
			w.WriteHeader(http.StatusNotModified)

			return nil
		}
	}
	h.Set("Content-Type", "application/json")
	// The caller may be gone.
	_, _ = w.Write(text)

	return nil
}

// answer sends a JSON document. The addresses in it are written as they are, so that they can be copied by hand.
func answer(w http.ResponseWriter, status int, body any) error {
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	if err := to.Encode(body); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// The caller may be gone; what was done is done.
	_, _ = w.Write(bytes.TrimSuffix(text.Bytes(), []byte("\n")))

	return nil
}
