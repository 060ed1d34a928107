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
	all := slices.Concat(plainCases(), networkCases(), refusalCases(), changedCases(), rangeCases(), codingCases(), limitCases())
	for _, tc := range all {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, tc.run)
		})
	}
}

func (tc downloadCase) run(t *testing.T) {
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
