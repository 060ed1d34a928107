package claimcheck_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/protocol"
)

const etag = `"e1"`

// object is a stored clip; its handler behaves as S3 does for plain GETs and ranges.
func object(data []byte, tag string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		if match := r.Header.Get("If-Match"); match != "" && match != tag {
			xmlError(412, "PreconditionFailed", "At least one of the pre-conditions did not hold")(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}
}

// cutAfter sends the object's head and n bytes of it from where the range starts, then breaks the connection.
func cutAfter(data []byte, n int) http.HandlerFunc {
	return partial(data, n, func(*http.Request) { panic(http.ErrAbortHandler) })
}

// stallAfter sends n bytes and then nothing more.
func stallAfter(data []byte, n int) http.HandlerFunc {
	return partial(data, n, func(r *http.Request) { <-r.Context().Done() })
}

func partial(data []byte, n int, then func(*http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", etag)
		start := 0
		if spec, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
			start, _ = strconv.Atoi(strings.TrimSuffix(spec, "-"))
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, len(data)-1, len(data)))
			w.Header().Set("Content-Length", strconv.Itoa(len(data)-start))
			w.WriteHeader(http.StatusPartialContent)
		} else {
			w.Header().Set("Content-Length", strconv.Itoa(len(data)))
			w.WriteHeader(http.StatusOK)
		}
		_, _ = w.Write(data[start:min(start+n, len(data))])
		w.(http.Flusher).Flush()
		then(r)
	}
}

func xmlError(code int, s3code, message string) http.HandlerFunc {
	body := fmt.Sprintf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>%s</Message><Resource>/%s</Resource></Error>", s3code, message, canary)
	return status(code, body, "Content-Type", "application/xml")
}

func expired(w http.ResponseWriter, r *http.Request) {
	xmlError(403, "AccessDenied", "Request has expired")(w, r)
}

var clipData = bytes.Repeat([]byte("0123456789abcdef"), 8<<10) // 128 KiB

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

func clip(data []byte) protocol.ClaimClip {
	size := int64(len(data))
	return protocol.ClaimClip{ID: "c1", URL: "https://" + host + "/c1?" + canary, Size: &size, SHA256: sum(data), ETag: etag}
}

// plain is an http URL: these tests have no TLS.
func plain(c protocol.ClaimClip) protocol.ClaimClip {
	c.URL = strings.Replace(c.URL, "https:", "http:", 1)
	return c
}

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}

func withHeader(name, value string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(name, value)
		next(w, r)
	}
}

// bare forgets size, sum and ETag.
func bare(c *protocol.ClaimClip) { c.Size, c.SHA256, c.ETag = nil, "", "" }

func TestDownload(t *testing.T) {
	t.Parallel()
	other := bytes.ReplaceAll(clipData, []byte("a"), []byte("A"))
	good := object(clipData, etag)
	chunked := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(clipData[:100])
		w.(http.Flusher).Flush()
		_, _ = w.Write(clipData[100:])
	}
	refuseRange := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			xmlError(403, "SignatureDoesNotMatch", "no")(w, r)
			return
		}
		good(w, r)
	}
	ignoreRange := func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Range")
		good(w, r)
	}
	wrongPart := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") == "" {
			good(w, r)
			return
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(clipData)-1, len(clipData)))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(clipData)
	}
	unasked := func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Range", "bytes=0-999")
		good(w, r)
	}
	tests := []struct {
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
	}{
		{name: "plain", handler: good, requests: 1},
		{name: "nothing is declared", handler: good, change: bare, requests: 1},
		{name: "an ETag without quotes", handler: good, change: func(c *protocol.ClaimClip) { c.ETag = "e1" }, requests: 1},
		{name: "a weak ETag", handler: good, change: func(c *protocol.ClaimClip) { c.ETag = `W/"e1"` }, requests: 1},
		{name: "an upper-case sum", handler: good, change: func(c *protocol.ClaimClip) { c.SHA256 = strings.ToUpper(c.SHA256) }, requests: 1},
		{name: "chunked with a size", handler: http.HandlerFunc(chunked), requests: 1},
		{name: "chunked, nothing declared", handler: http.HandlerFunc(chunked), change: bare, requests: 1},
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
		{name: "range is ignored", handler: steps(cutAfter(clipData, 5000), ignoreRange), requests: 2, resumed: []string{"network", "range"}},
		{name: "range is forbidden", handler: steps(cutAfter(clipData, 5000), refuseRange), requests: 4, refreshes: 1, resumed: []string{"network", "status", "status"}},
		{name: "another part than asked for", handler: steps(cutAfter(clipData, 5000), wrongPart), requests: 3, resumed: []string{"network", "range"}},
		{name: "a part that nobody asked for", handler: steps(unasked, good), requests: 2, resumed: []string{"short"}},
		{name: "206 without a range", handler: status(206, "abc"), code: protocol.CodeInputUnreachable, retryable: true, requests: 9},
		{name: "redirect", handler: status(302, "", "Location", "http://evil.test/?"+canary), code: protocol.CodeInputUnreachable, retryable: true, requests: 1},
		{name: "redirect that can't be parsed", handler: status(307, "", "Location", "http://[::/?"+canary), code: protocol.CodeInputUnreachable, retryable: true, requests: 1},
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
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := serve(t, tc.handler)
				counts := &counter{}
				client := n.client(func(c *claimcheck.Config) {
					c.Observer = counts
					if tc.config != nil {
						tc.config(c)
					}
				})
				c := plain(clip(clipData))
				if tc.change != nil {
					tc.change(&c)
				}
				refreshes := 0
				path := filepath.Join(t.TempDir(), "c1")
				err := client.Download(t.Context(), claimcheck.Download{Clip: c, Path: path, Refresh: func(context.Context) (protocol.ClaimClip, error) {
					refreshes++
					fresh := c
					if tag := c.Headers["x-fresh-etag"]; tag != "" {
						fresh.ETag = tag
					}
					return fresh, nil
				}})
				if tc.code == "" {
					if err != nil {
						t.Fatal(err)
					}
					if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, clipData) {
						t.Errorf("%d bytes, %v", len(got), err)
					}
					if got := counts.resumed(); !slices.Equal(got, tc.resumed) {
						t.Errorf("resumed for %v, want %v", got, tc.resumed)
					}
				} else {
					wantFault(t, err, tc.code, tc.retryable)
				}
				if entries, _ := os.ReadDir(filepath.Dir(path)); tc.code != "" && len(entries) > 0 || len(entries) > 1 {
					t.Errorf("left behind: %v", entries)
				}
				if got := len(n.seen()); got != tc.requests || refreshes != tc.refreshes {
					t.Errorf("%d requests and %d refreshes, want %d and %d", got, refreshes, tc.requests, tc.refreshes)
				}
				for _, r := range n.seen() {
					if r.method != "GET" || r.header.Get("Accept-Encoding") != "identity" || r.header.Get("Authorization") != "" || r.header.Get("Webhook-Signature") != "" {
						t.Errorf("%s %v", r.method, r.header)
					}
				}
			})
		})
	}
}

// withoutMatch is a server that does not know If-Match.
func withoutMatch(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("If-Match")
		next(w, r)
	}
}

// drip sends one byte at a time.
func drip(every time.Duration) http.HandlerFunc { return paced(every, 1) }

// paced sends the clip at a steady rate.
func paced(every time.Duration, size int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", etag)
		w.Header().Set("Content-Length", strconv.Itoa(len(clipData)))
		for chunk := range slices.Chunk(clipData, size) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-time.After(every):
			case <-r.Context().Done():
				return
			}
		}
	}
}

func TestDownloadResumesExactly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := serve(t, steps(cutAfter(clipData, 5000), cutAfter(clipData, 700), object(clipData, etag)))
		c := plain(clip(clipData))
		c.Headers = protocol.Headers{"X-Extra": "kept", "Host": host}
		var last int64
		counts := &counter{}
		err := n.client(func(c *claimcheck.Config) { c.Observer = counts }).Download(t.Context(), claimcheck.Download{
			Clip: c, Path: filepath.Join(t.TempDir(), "c1"),
			Progress: func(done, total int64) {
				if done < last || total != int64(len(clipData)) {
					t.Errorf("progress from %d to %d of %d", last, done, total)
				}
				last = done
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		var ranges []string
		for _, r := range n.seen() {
			ranges = append(ranges, r.header.Get("Range"))
			if r.header.Get("If-Match") != etag || r.header.Get("X-Extra") != "kept" {
				t.Errorf("headers %v", r.header)
			}
		}
		if want := []string{"", "bytes=5000-", "bytes=5700-"}; !slices.Equal(ranges, want) {
			t.Errorf("ranges %q, want %q", ranges, want)
		}
		if last != int64(len(clipData)) || counts.downloaded() != last {
			t.Errorf("progress ended at %d, %d bytes were counted", last, counts.downloaded())
		}
	})
}

func TestDownloadIdleBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := serve(t, steps(silent, object(clipData, etag)))
		start := time.Now()
		err := n.client(nil).Download(t.Context(), claimcheck.Download{Clip: plain(clip(clipData)), Path: filepath.Join(t.TempDir(), "c1")})
		if took := time.Since(start); err != nil || took < 30*time.Second || took > 31*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestDownloadStops(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
	}{{"in the head", silent}, {"in the body", stallAfter(clipData, 100)}, {"while waiting", status(503, "", "Retry-After", "20")}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				lost := errors.New("the lock is lost")
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(3*time.Second, func() { cancel(lost) })
				start := time.Now()
				path := filepath.Join(t.TempDir(), "c1")
				err := serve(t, tc.handler).client(nil).Download(ctx, claimcheck.Download{Clip: plain(clip(clipData)), Path: path})
				if !errors.Is(err, lost) || time.Since(start) != 3*time.Second {
					t.Errorf("%v after %v", err, time.Since(start))
				}
				if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the file is left: %v", err)
				}
			})
		})
	}
}

func TestDownloadKeepsRefreshErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := &claimcheck.ClaimError{
			Operation: "redeem", Kind: claimcheck.KindGone, Reason: protocol.GoneCancelled,
			Fault: protocol.NewFault(protocol.CodeClaimGone, "the analysis is cancelled"),
		}
		err := serve(t, http.HandlerFunc(expired)).client(nil).Download(t.Context(), claimcheck.Download{
			Clip: plain(clip(clipData)), Path: filepath.Join(t.TempDir(), "c1"),
			Refresh: func(context.Context) (protocol.ClaimClip, error) { return protocol.ClaimClip{}, gone },
		})
		e, ok := errors.AsType[*claimcheck.ClaimError](err)
		if !ok || e.Kind != claimcheck.KindGone {
			t.Errorf("got %v", err)
		}
		wantFault(t, err, protocol.CodeClaimGone, false)
	})
}

func TestDownloadUnwritable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		err := serve(t, object(clipData, etag)).client(nil).Download(t.Context(), claimcheck.Download{
			Clip: plain(clip(clipData)), Path: filepath.Join(t.TempDir(), "no", "such", "folder"),
		})
		wantFault(t, err, protocol.CodeInternal, true)
	})
}

// /dev/full takes no byte: a real full disk without filling one.
func TestDownloadFullDisk(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "c1")
		if err := os.Symlink("/dev/full", path); err != nil {
			t.Fatal(err)
		}
		err := serve(t, object(clipData, etag)).client(nil).Download(t.Context(), claimcheck.Download{Clip: plain(clip(clipData)), Path: path})
		wantFault(t, err, protocol.CodeDiskFull, true)
	})
}

func TestCheckSizes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := serve(t, http.NotFoundHandler()).client(func(c *claimcheck.Config) { c.MaxInputBytes = 100 })
		sized := func(n int64) protocol.ClaimClip { return protocol.ClaimClip{Size: &n} }
		if err := client.CheckSizes([]protocol.ClaimClip{sized(60), {}, sized(40)}); err != nil {
			t.Error(err)
		}
		wantFault(t, client.CheckSizes([]protocol.ClaimClip{sized(60), sized(41)}), protocol.CodeInputTooLarge, false)
		wantFault(t, client.CheckSizes([]protocol.ClaimClip{sized(1 << 62), sized(1 << 62), sized(1 << 62)}), protocol.CodeInputTooLarge, false)
	})
}
