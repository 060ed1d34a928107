package claimcheck_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/protocol"
)

// downloadCase is one way in which storage may answer, and what comes of it.
type downloadCase struct {
	name    string
	handler http.Handler
	change  func(*protocol.ClaimClip)
	// code is empty if the download succeeds.
	code      protocol.Code
	retryable bool
	requests  int
	refreshes int
	resumed   []string
	config    func(*claimcheck.Config)
}

// good is the object as the claim describes it, other has other bytes and the same length.
var (
	good  = object(clipData, etag)
	other = bytes.ReplaceAll(clipData, []byte("a"), []byte("A"))
)

func chunked(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write(clipData[:100])
	w.(http.Flusher).Flush()
	_, _ = w.Write(clipData[100:])
}

func refuseRange(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Range") != "" {
		xmlError(403, "SignatureDoesNotMatch", "no")(w, r)
		return
	}
	good(w, r)
}

func ignoreRange(w http.ResponseWriter, r *http.Request) {
	r.Header.Del("Range")
	good(w, r)
}

func wrongPart(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Range") == "" {
		good(w, r)
		return
	}
	w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(clipData)-1, len(clipData)))
	w.WriteHeader(http.StatusPartialContent)
	_, _ = w.Write(clipData)
}

func unaskedPart(w http.ResponseWriter, r *http.Request) {
	r.Header.Set("Range", "bytes=0-999")
	good(w, r)
}

// plainCases are bytes that come as they should.
func plainCases() []downloadCase {
	return []downloadCase{
		{name: "plain", handler: good, requests: 1},
		{name: "nothing is declared", handler: good, change: bare, requests: 1},
		{name: "an ETag without quotes", handler: good, change: func(c *protocol.ClaimClip) { c.ETag = "e1" }, requests: 1},
		{name: "a weak ETag", handler: good, change: func(c *protocol.ClaimClip) { c.ETag = `W/"e1"` }, requests: 1},
		{name: "an upper-case sum", handler: good, change: func(c *protocol.ClaimClip) { c.SHA256 = strings.ToUpper(c.SHA256) }, requests: 1},
		{name: "chunked with a size", handler: http.HandlerFunc(chunked), requests: 1},
		{name: "chunked, nothing declared", handler: http.HandlerFunc(chunked), change: bare, requests: 1},
	}
}

// networkCases are broken, silent and slow connections.
func networkCases() []downloadCase {
	return []downloadCase{
		{name: "cut at once", handler: steps(cut, good), requests: 2, resumed: []string{"network"}},
		{name: "cut after the head", handler: steps(cutAfter(clipData, 0), good), requests: 2, resumed: []string{"network"}},
		{
			name: "cut at byte 1, 1000 and the last", handler: steps(cutAfter(clipData, 1), cutAfter(clipData, 1000), cutAfter(clipData, len(clipData)-1002), good),
			requests: 4, resumed: []string{"network", "network", "network"},
		},
		{
			name: "cut 8 times", handler: steps(slices.Concat(slices.Repeat([]http.HandlerFunc{cutAfter(clipData, 1000)}, 8), []http.HandlerFunc{good})...),
			requests: 9, resumed: slices.Repeat([]string{"network"}, 8),
		},
		{name: "cut for ever", handler: cutAfter(clipData, 10), code: protocol.CodeInputUnreachable, retryable: true, requests: 9},
		{name: "stall before the head", handler: steps(silent, good), requests: 2, resumed: []string{"idle"}},
		{name: "stall in the body", handler: steps(stallAfter(clipData, 70000), good), requests: 2, resumed: []string{"idle"}},
		{name: "drip", handler: steps(drip(10*time.Second), good), requests: 2, resumed: []string{"idle"}},
		{name: "slow but steady", handler: paced(time.Second, 4<<10), requests: 1},
		{name: "SlowDown", handler: steps(xmlError(503, "SlowDown", "Reduce your request rate"), good), requests: 2, resumed: []string{"status"}},
		{name: "500 for ever", handler: status(500, ""), code: protocol.CodeInputUnreachable, retryable: true, requests: 9},
		{name: "429", handler: steps(status(429, "", "Retry-After", "2"), good), requests: 2, resumed: []string{"status"}},
	}
}

// refusalCases are answers that refuse.
func refusalCases() []downloadCase {
	return []downloadCase{
		{name: "expired", handler: steps(expired, good), requests: 2, refreshes: 1, resumed: []string{"refresh"}},
		{name: "expired in the middle", handler: steps(cutAfter(clipData, 5000), expired, good), requests: 3, refreshes: 1, resumed: []string{"network", "refresh"}},
		{name: "expired for ever", handler: http.HandlerFunc(expired), code: protocol.CodeInputForbidden, retryable: true, requests: 4, refreshes: 3},
		{name: "expired token", handler: steps(xmlError(400, "ExpiredToken", "The provided token has expired."), good), requests: 2, refreshes: 1, resumed: []string{"refresh"}},
		{name: "invalid token", handler: steps(xmlError(403, "InvalidToken", "x"), good), requests: 2, refreshes: 1, resumed: []string{"refresh"}},
		{name: "not valid yet", handler: steps(xmlError(403, "AccessDenied", "Request is not valid yet"), good), requests: 2, refreshes: 1, resumed: []string{"refresh"}},
		{name: "forbidden", handler: xmlError(403, "AccessDenied", "Access Denied"), code: protocol.CodeInputForbidden, retryable: true, requests: 2, refreshes: 1},
		{name: "wrong signature", handler: xmlError(403, "SignatureDoesNotMatch", canary), code: protocol.CodeInputForbidden, retryable: true, requests: 2, refreshes: 1},
		{name: "forbidden once", handler: steps(status(403, "nope"), good), requests: 2, refreshes: 1, resumed: []string{"status"}},
		{name: "missing", handler: xmlError(404, "NoSuchKey", "x"), code: protocol.CodeInputMissing, requests: 1},
		{name: "missing bucket", handler: xmlError(404, "NoSuchBucket", "x"), code: protocol.CodeInputMissing, requests: 1},
	}
}

// changedCases are objects that are not the claim's.
func changedCases() []downloadCase {
	return []downloadCase{
		{name: "changed before", handler: object(clipData, `"e2"`), code: protocol.CodeInputMismatch, requests: 2, refreshes: 1},
		{
			name: "changed, and the claim follows", handler: object(clipData, `"e2"`), requests: 2, refreshes: 1, resumed: []string{"changed"},
			change: func(c *protocol.ClaimClip) { c.Headers = protocol.Headers{"x-fresh-etag": `"e2"`} },
		},
		{name: "changed in the middle", handler: steps(cutAfter(clipData, 5000), object(other, `"e2"`)), code: protocol.CodeInputMismatch, requests: 3, refreshes: 1},
		{name: "another ETag in the answer", handler: steps(cutAfter(clipData, 5000), withoutMatch(object(other, `"e2"`))), code: protocol.CodeInputMismatch, requests: 3, refreshes: 1},
		{
			name: "another object, ETag unknown to the claim", handler: steps(cutAfter(clipData, 5000), withoutMatch(object(other, `"e2"`)), good),
			change: func(c *protocol.ClaimClip) { c.ETag = "" }, requests: 3, refreshes: 1, resumed: []string{"network", "changed"},
		},
		{name: "416 in the middle", handler: steps(cutAfter(clipData, 5000), xmlError(416, "InvalidRange", "x"), good), requests: 3, resumed: []string{"network", "status"}},
		{name: "wrong bytes of the right length", handler: object(other, etag), code: protocol.CodeInputMismatch, requests: 2, refreshes: 1},
		{name: "wrong bytes once", handler: steps(object(other, etag), good), requests: 2, refreshes: 1, resumed: []string{"changed"}},
		{name: "too short an object", handler: object(clipData[:1000], etag), code: protocol.CodeInputMismatch, requests: 2, refreshes: 1},
		{name: "too long an object", handler: object(append(slices.Clone(clipData), 1), etag), code: protocol.CodeInputMismatch, requests: 2, refreshes: 1},
		{name: "HTML", handler: status(200, "<html>sign in</html>", "Content-Type", "text/html"), code: protocol.CodeInputMismatch, requests: 2, refreshes: 1},
		{name: "empty body", handler: status(200, ""), code: protocol.CodeInputMismatch, requests: 2, refreshes: 1},
		{name: "no content", handler: status(204, ""), code: protocol.CodeInputUnreachable, retryable: true, requests: 9},
	}
}

// rangeCases are servers with their own idea of ranges, and redirects.
func rangeCases() []downloadCase {
	return []downloadCase{
		{name: "range is ignored", handler: steps(cutAfter(clipData, 5000), ignoreRange), requests: 2, resumed: []string{"network", "range"}},
		{name: "range is forbidden", handler: steps(cutAfter(clipData, 5000), refuseRange), requests: 4, refreshes: 1, resumed: []string{"network", "status", "status"}},
		{name: "another part than asked for", handler: steps(cutAfter(clipData, 5000), wrongPart), requests: 3, resumed: []string{"network", "range"}},
		{name: "a part that nobody asked for", handler: steps(unaskedPart, good), requests: 2, resumed: []string{"short"}},
		{name: "206 without a range", handler: status(206, "abc"), code: protocol.CodeInputUnreachable, retryable: true, requests: 9},
		{name: "redirect", handler: status(302, "", "Location", "http://evil.test/?"+canary), code: protocol.CodeInputUnreachable, retryable: true, requests: 1},
		{name: "redirect that can't be parsed", handler: status(307, "", "Location", "http://[::/?"+canary), code: protocol.CodeInputUnreachable, retryable: true, requests: 1},
	}
}

// codingCases are objects that are stored encoded.
func codingCases() []downloadCase {
	return []downloadCase{
		{
			name: "gzip, sum of the stored bytes", handler: withHeader("Content-Encoding", "gzip", object(gzipped(clipData), etag)), requests: 1,
			change: func(c *protocol.ClaimClip) {
				n := int64(len(gzipped(clipData)))
				c.Size, c.SHA256 = &n, sum(gzipped(clipData))
			},
		},
		{name: "gzip, sum of the clip", handler: withHeader("Content-Encoding", "gzip", object(gzipped(clipData), etag)), requests: 1},
		{name: "gzip in the header only, but the right bytes", handler: withHeader("Content-Encoding", "gzip", good), requests: 1},
		{name: "gzip in the header only", handler: withHeader("Content-Encoding", "gzip", good), change: bare, code: protocol.CodeInputMismatch, requests: 1},
		{name: "aws-chunked means nothing", handler: withHeader("Content-Encoding", "aws-chunked", good), requests: 1},
		{name: "brotli", handler: withHeader("Content-Encoding", "br", good), code: protocol.CodeInputMismatch, requests: 1},
		{
			name: "bomb", handler: withHeader("Content-Encoding", "gzip", object(gzipped(make([]byte, 1<<20)), etag)), change: bare, code: protocol.CodeInputTooLarge, requests: 1,
			config: func(c *claimcheck.Config) { c.MaxInputBytes = 100 << 10 },
		},
	}
}

// limitCases are what is not fetched at all, or not to the end.
func limitCases() []downloadCase {
	return []downloadCase{
		{name: "declared too large", handler: good, code: protocol.CodeInputTooLarge, requests: 0, config: func(c *claimcheck.Config) { c.MaxInputBytes = 1000 }},
		{name: "announced too large", handler: good, change: bare, code: protocol.CodeInputTooLarge, requests: 1, config: func(c *claimcheck.Config) { c.MaxInputBytes = 1000 }},
		{name: "counted too large", handler: http.HandlerFunc(chunked), change: bare, code: protocol.CodeInputTooLarge, requests: 1, config: func(c *claimcheck.Config) { c.MaxInputBytes = 1000 }},
		{
			name: "no room on the disk", handler: good, change: func(c *protocol.ClaimClip) { n := int64(1) << 60; c.Size = &n }, code: protocol.CodeDiskFull, retryable: true, requests: 0,
			config: func(c *claimcheck.Config) { c.MaxInputBytes = 1 << 61 },
		},
		{name: "host not allowed", handler: good, change: func(c *protocol.ClaimClip) { c.URL = "http://evil.test/?" + canary }, code: protocol.CodeHostNotAllowed, requests: 0},
		{name: "a user in the URL", handler: good, change: func(c *protocol.ClaimClip) { c.URL = "http://u:c0ffee@" + host + "/" }, code: protocol.CodeHostNotAllowed, requests: 0},
		{name: "another Host header", handler: good, change: func(c *protocol.ClaimClip) { c.Headers = protocol.Headers{"host": "evil.test"} }, code: protocol.CodeHostNotAllowed, requests: 0},
	}
}
