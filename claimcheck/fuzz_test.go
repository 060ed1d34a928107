package claimcheck_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/posefleet/posefleet/claimcheck"
)

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"5", "0", "-5", "1e3", "", " 7 ", "99999999999999999999", "Wed, 21 Oct 2035 07:28:00 GMT", "0x10", "٣"} {
		f.Add(s)
	}
	now := time.Unix(1_796_000_000, 0)
	f.Fuzz(func(t *testing.T, text string) {
		got := claimcheck.RetryAfter(http.Header{"Retry-After": {text}}, now, time.Minute)
		if got < 0 || got > time.Minute {
			t.Fatalf("%q gives %v", text, got)
		}
	})
}

func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-9/10", "bytes 0-9/*", "bytes */10", "bytes 9-0/10", "bytes 0-10/10", "bytes -1-5/9", "items 0-1/2", "bytes 0-9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, last, total, ok := claimcheck.ContentRange(text)
		if ok && (first < 0 || last < first || total >= 0 && last >= total || total < -1) {
			t.Fatalf("%q gives %d-%d/%d", text, first, last, total)
		}
	})
}

func FuzzStorageError(f *testing.F) {
	f.Add(403, []byte(`<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>`))
	f.Add(400, []byte(`<?xml version="1.0"?><Error xmlns="x"><Code>ExpiredToken</Code></Error>`))
	f.Add(404, []byte(`{"code":"not_found","detail":"x"}`))
	f.Add(500, []byte(`<html>`))
	f.Add(403, []byte(`<Error><Code>X-Amz-Signature=c0ffee</Code></Error>`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		code, v := claimcheck.StorageError(status, body)
		if v < 0 || v > 6 || len(code) > 64 {
			t.Fatalf("%q is %d with code %q", body, v, code)
		}
		for _, c := range code {
			if c == '=' || c == '&' || c == ' ' {
				t.Fatalf("the code is not one word: %q", code)
			}
		}
	})
}

func TestContentRangeRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int64Range(1, 1<<50).Draw(t, "total")
		last := rapid.Int64Range(0, total-1).Draw(t, "last")
		first := rapid.Int64Range(0, last).Draw(t, "first")
		f, l, n, ok := claimcheck.ContentRange(fmt.Sprintf("bytes %d-%d/%d", first, last, total))
		if !ok || f != first || l != last || n != total {
			t.Fatalf("got %d-%d/%d, %v", f, l, n, ok)
		}
	})
}

func TestBackoffStaysInBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 1000).Draw(t, "n")
		base := time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "base"))
		limit := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "limit"))
		if d := claimcheck.Backoff(n, base, limit); d < 0 || d > limit || n == 0 && d > base {
			t.Fatalf("%v for try %d of %v to %v", d, n, base, limit)
		}
	})
}
