package claimcheck

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/posefleet/posefleet/protocol"
)

// contentRange is a Content-Range of one part, "bytes first-last/total". total is -1 for "*".
type contentRange struct{ first, last, total int64 }

// parseContentRange is strict: digits only, first ≤ last < total.
func parseContentRange(text string) (contentRange, bool) {
	spec, ok := strings.CutPrefix(text, "bytes ")
	span, total, ok2 := strings.Cut(spec, "/")
	first, last, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 || !isDigits(first) || !isDigits(last) {
		return contentRange{}, false
	}
	r := contentRange{total: -1}
	var errs [3]error
	r.first, errs[0] = strconv.ParseInt(first, 10, 64)
	r.last, errs[1] = strconv.ParseInt(last, 10, 64)
	if total != "*" {
		if !isDigits(total) {
			return contentRange{}, false
		}
		r.total, errs[2] = strconv.ParseInt(total, 10, 64)
	}
	if errors.Join(errs[:]...) != nil || r.first > r.last || (r.total >= 0 && r.last >= r.total) {
		return contentRange{}, false
	}
	return r, true
}

// matchTag returns the If-Match value for an ETag, adding lost quotes. A weak tag never matches, so it gives none.
func matchTag(etag string) string {
	switch {
	case etag == "" || strings.HasPrefix(etag, "W/") || strings.ContainsAny(etag, "\r\n\x00"):
		return ""
	case strings.HasPrefix(etag, `"`):
		return etag
	default:
		return `"` + etag + `"`
	}
}

// sameTag compares what is left of two ETags without weakness and quotes; an absent one fits everything.
func sameTag(a, b string) bool {
	plain := func(tag string) string { return strings.Trim(strings.TrimPrefix(tag, "W/"), `"`) }
	return a == "" || b == "" || plain(a) == plain(b)
}

// contentCoding returns the one coding that the stored bytes are wrapped in, "" for none. S3 keeps "aws-chunked" from
// the upload, which means nothing.
func contentCoding(h http.Header) string {
	var codings []string
	for coding := range strings.SplitSeq(strings.Join(h.Values("Content-Encoding"), ","), ",") {
		coding = strings.ToLower(strings.TrimSpace(coding))
		if coding != "" && coding != "identity" && coding != "aws-chunked" {
			codings = append(codings, coding)
		}
	}
	return strings.Join(codings, ",")
}

// verifySum compares hex digests without regard to case; an absent one fits everything.
func verifySum(sum []byte, want string) bool {
	return want == "" || strings.EqualFold(hex.EncodeToString(sum), want)
}

// inflate replaces the gzip file at path by what is in it, at most limit bytes, and returns its size and SHA-256.
func inflate(path string, limit int64) (size int64, sum []byte, err error) {
	in, err := os.Open(path)
	if err != nil {
		return 0, nil, localFault(err)
	}
	defer in.Close()
	reader, err := gzip.NewReader(in)
	if err != nil {
		return 0, nil, notGzip(err)
	}
	plain := path + ".plain"
	defer os.Remove(plain) // gone already when all went well
	out, err := os.OpenFile(plain, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, nil, localFault(err)
	}
	hash := sha256.New()
	size, err = io.Copy(io.MultiWriter(writeOnly{out}, hash), io.LimitReader(reader, limit+1))
	closeErr := out.Close()
	switch {
	case isLocal(err) || isLocal(closeErr):
		return 0, nil, localFault(errors.Join(err, closeErr))
	case err != nil:
		return 0, nil, notGzip(err)
	case size > limit:
		return 0, nil, tooLarge(limit)
	}
	if err := os.Rename(plain, path); err != nil {
		return 0, nil, localFault(err)
	}
	return size, hash.Sum(nil), nil
}

// writeOnly marks write errors as ours, so that they are told from those of the source.
type writeOnly struct{ io.Writer }

func (w writeOnly) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		err = localError{err}
	}
	return n, err
}

// localError is an error of our own disk.
type localError struct{ error }

// Unwrap returns the operating system's error.
func (e localError) Unwrap() error { return e.error }

func isLocal(err error) bool {
	_, ok := errors.AsType[localError](err)
	return ok
}

// localFault is a fault of this worker's disk, which another worker may not have.
func localFault(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return protocol.NewRetryableFault(protocol.CodeDiskFull, "the disk is full").WithCause(err)
	}
	return protocol.NewRetryableFault(protocol.CodeInternal, "the scratch file can't be written").WithCause(err)
}

func notGzip(err error) error {
	return protocol.NewFault(protocol.CodeInputMismatch, "the stored object is said to be gzip and is not").WithCause(err)
}

func tooLarge(limit int64) error {
	return protocol.NewFault(protocol.CodeInputTooLarge, fmt.Sprintf("the clips have more than the allowed %d bytes", limit))
}
