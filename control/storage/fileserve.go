package storage

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// s3Fault is a fault as S3 says it.
type s3Fault struct {
	status  int
	code    string
	message string
}

// The faults that a worker can meet, with the codes and texts by which it knows what to do.
var (
	faultExpired       = s3Fault{http.StatusForbidden, "AccessDenied", "Request has expired"}
	faultSignature     = s3Fault{http.StatusForbidden, "SignatureDoesNotMatch", "The signature is not for this request."}
	faultMissing       = s3Fault{http.StatusNotFound, "NoSuchKey", "The specified key does not exist."}
	faultMethod        = s3Fault{http.StatusMethodNotAllowed, "MethodNotAllowed", "Only GET and PUT are served."}
	faultPrecondition  = s3Fault{http.StatusPreconditionFailed, "PreconditionFailed", "The object has another ETag."}
	faultRange         = s3Fault{http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "The range is outside of the object."}
	faultLength        = s3Fault{http.StatusLengthRequired, "MissingContentLength", "Content-Length is required."}
	faultDigest        = s3Fault{http.StatusBadRequest, "BadDigest", "The SHA-256 of the body is not the one that was signed."}
	faultIncomplete    = s3Fault{http.StatusBadRequest, "IncompleteBody", "The body ended before Content-Length."}
	faultInternalError = s3Fault{http.StatusInternalServerError, "InternalError", "The storage could not be used; try again."}
)

func (f s3Fault) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for _, name := range []string{"ETag", "Accept-Ranges", "Last-Modified", "Content-Length", "Content-Encoding", "Content-Disposition"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/xml")
	w.WriteHeader(f.status)
	if r.Method == http.MethodHead {
		return
	}
	body := struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}{Code: f.code, Message: f.message}
	// The status has been sent; a client that is gone will not miss the text.
	_, _ = io.WriteString(w, xml.Header)
	_ = xml.NewEncoder(w).Encode(body)
}

// Handler serves the signed URLs.
func (f *file) Handler() http.Handler { return http.HandlerFunc(f.serve) }

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodPut && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, PUT")
		faultMethod.write(w, r)

		return
	}
	key := strings.TrimPrefix(r.URL.Path, HandlerPath)
	g, ok := f.sign.verify(r.Method, key, r.URL.Query())
	switch {
	case !ok || !validKey(key):
		faultSignature.write(w, r)
	case !f.now().Before(g.expires):
		faultExpired.write(w, r)
	case r.Method == http.MethodPut:
		f.put(w, r, g.put)
	default:
		f.get(w, r, key)
	}
}

func (f *file) get(w http.ResponseWriter, r *http.Request, key string) {
	content, o, err := f.Open(r.Context(), key)
	if errors.Is(err, ErrNotFound) {
		faultMissing.write(w, r)

		return
	}
	if err != nil {
		f.log.ErrorContext(r.Context(), "storage can't be read", slog.String("key", key), slog.Any("error", err))
		faultInternalError.write(w, r)

		return
	}
	defer content.Close()
	h := w.Header()
	h.Set("ETag", o.ETag)
	h.Set("Content-Type", o.ContentType)
	Harmless(h)
	http.ServeContent(&faultWriter{ResponseWriter: w, r: r}, r, "", time.Time{}, content)
}

// Harmless sets the headers with which foreign bytes can be served from the address of the operators' page: a browser
// neither guesses a type for them nor runs them.
func Harmless(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
}

// put writes the body into a temporary file and moves it into place if it is what was signed.
func (f *file) put(w http.ResponseWriter, r *http.Request, p Put) {
	switch {
	case r.ContentLength < 0:
		faultLength.write(w, r)

		return
	case r.ContentLength != p.Size || r.Header.Get("Content-Type") != p.ContentType:
		// S3 finds both in the signature, and so that is what it complains about.
		faultSignature.write(w, r)

		return
	}
	fault, err := f.receive(r.Body, p)
	if err != nil {
		f.log.ErrorContext(r.Context(), "storage can't be written", slog.String("key", p.Key), slog.Any("error", err))
		fault = faultInternalError
	}
	if fault != (s3Fault{}) {
		fault.write(w, r)

		return
	}
	w.Header().Set("ETag", `"`+p.SHA256+`"`)
	w.WriteHeader(http.StatusOK)
}

// receive stores the body. A fault is the sender's, an error is the disk's.
func (f *file) receive(body io.Reader, p Put) (s3Fault, error) {
	out, temp, err := f.temp()
	if err != nil {
		return s3Fault{}, err
	}
	// After the move there is nothing to remove.
	defer func() { _ = f.root.Remove(temp) }()
	sum := sha256.New()
	in := &senderReader{r: io.LimitReader(body, p.Size)}
	n, err := io.Copy(io.MultiWriter(out, sum), in)
	if err == nil {
		err = out.Sync()
	}
	err = errors.Join(err, out.Close())
	switch {
	case in.err != nil || (err == nil && n != p.Size):
		return faultIncomplete, nil
	case err != nil:
		return s3Fault{}, err
	case hex.EncodeToString(sum.Sum(nil)) != p.SHA256:
		return faultDigest, nil
	}

	return s3Fault{}, f.commit(temp, p)
}

// senderReader remembers that it was the sender who failed, not the disk.
type senderReader struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (s *senderReader) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}

	return n, err
}

// faultWriter turns the plain faults of http.ServeContent into S3's.
type faultWriter struct {
	http.ResponseWriter
	r    *http.Request
	mute bool
}

// WriteHeader implements http.ResponseWriter.
func (w *faultWriter) WriteHeader(status int) {
	switch status {
	case http.StatusPreconditionFailed:
		w.fail(faultPrecondition)
	case http.StatusRequestedRangeNotSatisfiable:
		w.fail(faultRange)
	case http.StatusInternalServerError:
		w.fail(faultInternalError)
	default:
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *faultWriter) fail(f s3Fault) {
	w.mute = true
	f.write(w.ResponseWriter, w.r)
}

// Write drops the plain text of a fault.
func (w *faultWriter) Write(b []byte) (int, error) {
	if w.mute {
		return len(b), nil
	}

	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *faultWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
