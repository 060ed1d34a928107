package control

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/posefleet/posefleet/protocol"
)

// idleLimit is how long a transfer may stand still before it is cut off. A slow but steady one may take any time.
const idleLimit = 30 * time.Second

// patient replaces the server's limits on a whole request by limits on standing still, for transfers and event streams.
func patient(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		p := &patientWriter{ResponseWriter: w, control: c}
		r.Body = &patientBody{ReadCloser: r.Body, control: c}
		// Connections of tests may know no deadlines.
		_ = c.SetWriteDeadline(time.Now().Add(idleLimit))
		h.ServeHTTP(p, r)
	})
}

type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Write moves the limit with every piece.
func (p *patientWriter) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(idleLimit))

	return p.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (p *patientWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read moves both limits with every piece: while a body comes in, no answer can be due.
func (p *patientBody) Read(b []byte) (int, error) {
	limit := time.Now().Add(idleLimit)
	_ = p.control.SetReadDeadline(limit)
	_ = p.control.SetWriteDeadline(limit)

	return p.ReadCloser.Read(b)
}

// recording remembers what was answered, for the log.
type recording struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// WriteHeader implements http.ResponseWriter.
func (r *recording) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recording) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)

	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recording) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// lingerMost bounds what is read of a body that nobody wants; the server's read timeout bounds the time. Larger ones are cut off.
const lingerMost = 32 << 20

// lingering reads what a refused request still has to send. Most clients read the answer when they have sent all: a connection that is closed
// before that is a reset to them, and not a refusal with a reason.
func lingering(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, rec := r.Body, &recording{ResponseWriter: w}
		h.ServeHTTP(rec, r)
		// A client that asks first has sent nothing yet, and is told not to.
		if rec.status < http.StatusBadRequest || body == nil || r.Header.Get("Expect") != "" {
			return
		}
		_, _ = io.CopyN(io.Discard, body, lingerMost)
	})
}

// logged writes one line for each request. The path has no query and no signature; health checks are not worth a line.
func (s *Server) logged(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		rec := &recording{ResponseWriter: w}
		defer s.finishRequest(rec, r, started)
		h.ServeHTTP(rec, r)
	})
}

func (s *Server) finishRequest(rec *recording, r *http.Request, started time.Time) {
	level := slog.LevelInfo
	fault := recover()
	if err, ok := fault.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(fault) // the server breaks the connection, as it was meant
	}
	if fault != nil {
		level = slog.LevelError
		s.log.ErrorContext(r.Context(), "a handler panicked", slog.Any("fault", fault), slog.String("stack", string(debug.Stack())))
		if rec.status == 0 {
			refuse(http.StatusInternalServerError, protocol.CodeInternal, "The request could not be carried out.").write(rec)
		}
	}
	if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" || r.Method == http.MethodGet && rec.status < 400 {
		level = slog.LevelDebug
	}
	s.metrics.request(r.Pattern, rec.status)
	s.log.LogAttrs(r.Context(), level, "request", slog.String("method", r.Method), slog.String("path", r.URL.Path),
		slog.Int("status", rec.status), slog.Int64("bytes", rec.bytes), slog.Int64("duration_ms", time.Since(started).Milliseconds()))
}

// problems makes problem documents of what the router itself refuses: unknown paths and wrong methods. Nothing is at a path that is no text: no
// id has such bytes, and not every database takes them in a question.
func problems(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !utf8.ValidString(r.URL.Path) || strings.ContainsRune(r.URL.Path, 0) {
			refuse(http.StatusNotFound, protocol.CodeNotFound, "There is nothing at this path.").write(w)

			return
		}
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)

			return
		}
		plain := httptest.NewRecorder()
		h.ServeHTTP(plain, r)
		p := refuse(http.StatusNotFound, protocol.CodeNotFound, "There is nothing at this path.")
		if plain.Code == http.StatusMethodNotAllowed {
			p = refuse(plain.Code, protocol.CodeMethodNotAllowed, "This path does not take this method.")
			w.Header().Set("Allow", plain.Header().Get("Allow"))
		}
		p.write(w)
	})
}
