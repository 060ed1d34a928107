package claimcheck_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/protocol"
)

func artifactFile(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pose.json.gz")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func target(headers protocol.Headers) protocol.ArtifactAnswer {
	return protocol.ArtifactAnswer{URL: "http://" + host + "/put?" + canary, Headers: headers, Key: "k"}
}

func TestUpload(t *testing.T) {
	t.Parallel()
	stored := status(200, "", "ETag", etag)
	tests := []struct {
		name      string
		handler   http.Handler
		data      []byte
		headers   protocol.Headers
		code      protocol.Code
		retryable bool
		requests  int
		refreshes int
		size      int64
	}{
		{name: "stored", handler: stored, data: clipData, requests: 1},
		{name: "201", handler: status(201, ""), data: clipData, requests: 1},
		{name: "small", handler: stored, data: []byte("{}"), requests: 1},
		{name: "empty", handler: stored, data: nil, requests: 1},
		{
			name: "presigned headers", handler: stored, data: []byte("{}"), requests: 1,
			headers: protocol.Headers{"content-type": "application/gzip", "Content-Length": "2", "Host": host, "x-amz-checksum-sha256": "x"},
		},
		{name: "reset", handler: steps(cut, stored), data: clipData, requests: 2},
		{name: "silence", handler: steps(silent, stored), data: clipData, requests: 2},
		{name: "SlowDown", handler: steps(xmlError(503, "SlowDown", ""), stored), data: clipData, requests: 2},
		{name: "500 for ever", handler: status(500, ""), data: clipData, code: protocol.CodeUploadFailed, retryable: true, requests: 9},
		{name: "expired", handler: steps(expired, stored), data: clipData, requests: 2, refreshes: 1},
		{name: "expired for ever", handler: http.HandlerFunc(expired), data: clipData, code: protocol.CodeUploadFailed, retryable: true, requests: 4, refreshes: 3},
		{name: "wrong signature", handler: xmlError(403, "SignatureDoesNotMatch", canary), data: clipData, code: protocol.CodeUploadFailed, retryable: true, requests: 2, refreshes: 1},
		{name: "bad digest", handler: xmlError(400, "BadDigest", "x"), data: clipData, code: protocol.CodeUploadFailed, retryable: true, requests: 2, refreshes: 1},
		{name: "redirect", handler: status(307, "", "Location", "http://evil.test/?"+canary), data: clipData, code: protocol.CodeUploadFailed, retryable: true, requests: 1},
		{name: "another length was presigned", handler: stored, data: []byte("{}"), headers: protocol.Headers{"content-length": "3"}, code: protocol.CodeUploadFailed, retryable: true, requests: 0},
		{name: "the file is not as long as said", handler: stored, data: []byte("{}"), size: 3, code: protocol.CodeInternal, retryable: true, requests: 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := serve(t, tc.handler)
				refreshes := 0
				size := int64(len(tc.data))
				if tc.size != 0 {
					size = tc.size
				}
				err := n.client(nil).Upload(t.Context(), claimcheck.Upload{
					Target: target(tc.headers), Path: artifactFile(t, tc.data), Size: size, ContentType: "application/json",
					Refresh: func(context.Context) (protocol.ArtifactAnswer, error) {
						refreshes++
						return target(tc.headers), nil
					},
				})
				if tc.code == "" && err != nil {
					t.Fatal(err)
				} else if tc.code != "" {
					wantFault(t, err, tc.code, tc.retryable)
				}
				requests := n.seen()
				if len(requests) != tc.requests || refreshes != tc.refreshes {
					t.Fatalf("%d requests and %d refreshes, want %d and %d", len(requests), refreshes, tc.requests, tc.refreshes)
				}
				for _, r := range requests {
					if r.method != "PUT" || r.length != size || !bytes.Equal(r.body, tc.data) || r.header.Get("Transfer-Encoding") != "" {
						t.Errorf("%s of %d bytes, length %d", r.method, len(r.body), r.length)
					}
					if want := tc.headers["content-type"]; want != "" && r.header.Get("Content-Type") != want {
						t.Errorf("content type %q", r.header.Get("Content-Type"))
					}
					if r.header.Get("Authorization") != "" || r.header.Get("Webhook-Signature") != "" {
						t.Errorf("headers %v", r.header)
					}
				}
			})
		})
	}
}

func TestUploadStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("the lock is lost")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Second, func() { cancel(lost) })
		start := time.Now()
		err := serve(t, http.HandlerFunc(silent)).client(nil).Upload(ctx, claimcheck.Upload{Target: target(nil), Path: artifactFile(t, clipData), Size: int64(len(clipData))})
		if !errors.Is(err, lost) || time.Since(start) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestUploadGuard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := claimcheck.Upload{Target: target(nil), Path: artifactFile(t, nil)}
		up.Target.URL = "http://evil.test/?" + canary
		wantFault(t, serve(t, status(200, "")).client(nil).Upload(t.Context(), up), protocol.CodeHostNotAllowed, false)
	})
}
