package claimcheck

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/posefleet/posefleet/protocol"
)

// transfer is one download. offset bytes are in the file and in the hash, all of them of the object with etag.
type transfer struct {
	c     *Client
	d     Download
	clip  protocol.ClaimClip
	url   *url.URL
	limit int64
	log   *slog.Logger

	file   *os.File
	hash   hash.Hash
	offset int64
	// arrived runs ahead of offset while a body is being read. total is -1 while it is not known.
	arrived int64
	total   int64
	etag    string
	coding  string

	resumes, refreshes int
	// Each of these happens once at most, so that the loop ends.
	triedFresh, startedOver, noRange bool
}

const copyBuffer = 256 << 10

// rewind throws away what is here.
func (t *transfer) rewind() error {
	if err := t.close(); err != nil {
		return localFault(err)
	}
	file, err := os.OpenFile(t.d.Path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return localFault(err)
	}
	t.file, t.hash, t.offset, t.arrived, t.total = file, sha256.New(), 0, 0, -1
	t.etag, t.coding = t.clip.ETag, ""
	return nil
}

func (t *transfer) close() error {
	if t.file == nil {
		return nil
	}
	err := t.file.Close()
	t.file = nil
	return err
}

// attempt does one GET from offset on. It returns nil, nil when the last byte is here.
func (t *transfer) attempt(ctx context.Context) (*outcome, error) {
	ctx, dog := newWatchdog(ctx, t.c.limits.IdleTimeout, t.c.limits.MinRate)
	defer dog.stop()
	request, err := t.request(ctx)
	if err != nil {
		return nil, err
	}
	response, err := t.c.send(request, t.c.storage.trusted(t.url))
	if err != nil {
		return outcomeOf(orIdle(ctx, err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusPartialContent {
		if t.isAtEnd(response) {
			return nil, nil
		}
		return outcomeOfStatus(response, t.c.limits.BackoffCap), nil
	}
	if out, err := t.begin(response); out != nil || err != nil {
		return out, err
	}
	return t.receive(ctx, response, dog)
}

// isAtEnd tells whether a 416 says that the object ends where the file does: the connection broke between the last
// byte and the end of a body of unknown length.
func (t *transfer) isAtEnd(response *http.Response) bool {
	return response.StatusCode == http.StatusRequestedRangeNotSatisfiable && t.offset > 0 &&
		response.Header.Get("Content-Range") == fmt.Sprintf("bytes */%d", t.offset)
}

// orIdle replaces the error of a request that the watchdog ended.
func orIdle(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errIdle) {
		return errIdle
	}
	return err
}

// request builds the GET. The claim's headers go verbatim; what this transfer lives by is set after them.
func (t *transfer) request(ctx context.Context) (*http.Request, error) {
	request := newRequest(ctx, http.MethodGet, t.url, nil)
	if err := setHeaders(request, t.clip.Headers); err != nil {
		return nil, err
	}
	request.Header.Set("Accept-Encoding", "identity")
	if t.offset > 0 && !t.noRange {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", t.offset))
	} else {
		request.Header.Del("Range")
	}
	if tag := matchTag(t.etag); tag != "" {
		request.Header.Set("If-Match", tag)
	}
	return request, nil
}

// setHeaders copies the headers of a claim. Host and Content-Length are not headers to net/http; they may only repeat
// what the URL and the body say, so that no answer can send the request to another site at the same address.
func setHeaders(request *http.Request, headers protocol.Headers) error {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		switch {
		case strings.EqualFold(name, "Host"):
			if !strings.EqualFold(value, request.URL.Host) {
				return protocol.NewFault(protocol.CodeHostNotAllowed, "the Host header of the claim is not the URL's host")
			}
		case strings.EqualFold(name, "Content-Length"):
			if value != strconv.FormatInt(request.ContentLength, 10) {
				return protocol.NewRetryableFault(protocol.CodeUploadFailed, "the presigned length is not the artifact's")
			}
		default:
			request.Header.Set(name, value)
		}
	}
	return nil
}

// begin looks at the head of a 200 or 206 and makes the transfer ready for its body.
func (t *transfer) begin(response *http.Response) (*outcome, error) {
	total := response.ContentLength
	switch {
	case response.StatusCode == http.StatusPartialContent:
		part, ok := parseContentRange(response.Header.Get("Content-Range"))
		if !ok || part.first != t.offset {
			t.noRange = true
			return t.badRange(response)
		}
		total = part.total
	case t.offset > 0:
		// The server ignored the range and sends everything.
		if err := t.rewind(); err != nil {
			return nil, err
		}
		t.c.observer.DownloadResumed("range")
	}
	if tag := response.Header.Get("ETag"); !sameTag(t.etag, tag) {
		return &outcome{verdict: verdictChanged, reason: "changed", what: "its ETag is another one"}, nil
	} else if t.etag == "" {
		t.etag = tag
	}
	t.coding = contentCoding(response.Header)
	return t.expect(response, total)
}

// badRange ends an attempt whose part is not the one that was asked for; the next one asks for no part.
func (t *transfer) badRange(response *http.Response) (*outcome, error) {
	if err := t.rewind(); err != nil {
		return nil, err
	}
	what := fmt.Sprintf("status %d with a part that was not asked for", response.StatusCode)
	return &outcome{verdict: verdictRetry, reason: "range", what: what}, nil
}

// expect holds the announced length against the claim, the limit and the disk.
func (t *transfer) expect(response *http.Response, total int64) (*outcome, error) {
	declared := t.clip.Size != nil && t.coding == ""
	switch {
	case total >= 0 && declared && total != *t.clip.Size:
		return &outcome{verdict: verdictChanged, reason: "changed", what: fmt.Sprintf("it has %d bytes, not %d", total, *t.clip.Size)}, nil
	case total < 0 && declared:
		total = *t.clip.Size
	case total < 0 && !isDelimited(response) && t.clip.SHA256 == "":
		// Where the end of the connection is the end of the body, a cut looks like an end.
		return &outcome{verdict: verdictRetry, reason: "short", what: "the length is not known"}, nil
	}
	t.total = total
	if total < 0 {
		return nil, nil
	}
	return nil, t.checkRoom(total)
}

// isDelimited tells whether the transport marks the body's end.
func isDelimited(response *http.Response) bool {
	return response.ContentLength >= 0 || response.ProtoMajor >= 2 || slices.Contains(response.TransferEncoding, "chunked")
}

// receive appends the body to the file.
func (t *transfer) receive(ctx context.Context, response *http.Response, dog *watchdog) (*outcome, error) {
	most := t.limit
	if t.total >= 0 {
		most = min(most, t.total)
	}
	t.arrived = t.offset
	body := meter{response.Body, func(n int64) { t.progress(n, dog) }}
	// One byte more than wanted, to see a body that does not end where it should.
	source := io.LimitReader(body, most-t.offset+1)
	written, err := io.CopyBuffer(io.MultiWriter(writeOnly{t.file}, t.hash), source, make([]byte, copyBuffer))
	t.offset += written
	switch {
	case isLocal(err):
		return nil, localFault(err)
	case err != nil:
		return outcomeOf(orIdle(ctx, err))
	case t.total >= 0 && t.offset > t.total:
		return &outcome{verdict: verdictChanged, reason: "changed", what: fmt.Sprintf("it has more than %d bytes", t.total)}, nil
	case t.offset > t.limit:
		return nil, tooLarge(t.limit)
	case t.total >= 0 && t.offset < t.total:
		return &outcome{verdict: verdictRetry, reason: "short", what: "the body ended early"}, nil
	}
	return nil, nil
}

func (t *transfer) progress(n int64, dog *watchdog) {
	dog.progress(n)
	t.c.observer.Downloaded(n)
	t.arrived += n
	if t.d.Progress != nil {
		t.d.Progress(t.arrived, t.total)
	}
}

// verify holds the complete bytes against the claim. Bytes that are stored wrapped in gzip are unwrapped; the claim's
// size and sum may then be those of either form.
func (t *transfer) verify() (*outcome, error) {
	asStored := t.mismatch(t.offset, t.hash.Sum(nil))
	switch t.coding {
	case "":
		return asStored, nil
	case "gzip", "x-gzip":
	default:
		return nil, protocol.NewFault(protocol.CodeInputMismatch, "the stored object has a content encoding that is not supported")
	}
	size, sum, err := inflate(t.d.Path, t.limit)
	if fault, ok := errors.AsType[*protocol.Fault](err); ok {
		if fault.Code == protocol.CodeInputMismatch && asStored == nil && t.clip.SHA256 != "" {
			return nil, nil // not gzip at all, but exactly what the claim describes: the header is wrong
		}
		return nil, err
	}
	if asStored == nil {
		return nil, nil
	}
	return t.mismatch(size, sum), nil
}

func (t *transfer) mismatch(size int64, sum []byte) *outcome {
	switch {
	case t.clip.Size != nil && size != *t.clip.Size:
		return &outcome{verdict: verdictChanged, reason: "changed", what: fmt.Sprintf("it has %d bytes, not %d", size, *t.clip.Size)}
	case !verifySum(sum, t.clip.SHA256):
		return &outcome{verdict: verdictChanged, reason: "changed", what: "its sha256 is another one"}
	}
	return nil
}
