package claimcheck_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/internal/s3test"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

// store is a real S3 server, which checks signatures, expiry, lengths and conditions, behind a proxy that can cut
// connections.
type store struct {
	t      *testing.T
	server *s3test.Server
	client *s3.Client
	// address is the proxy's; URLs are signed for it.
	address string
	cutAt   atomic.Int64
	cuts    atomic.Int64
}

func newStore(t *testing.T) *store {
	t.Helper()
	server := s3test.Start(t)
	s := &store{t: t, server: server}
	s.client = s3.New(s3.Options{
		Region: server.Region, BaseEndpoint: aws.String(server.URL), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, ""),
		HTTPClient:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	done := make(chan struct{})
	go func() { // ends when the listener is closed
		defer close(done)
		s.proxy(listener)
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return s
}

// proxy passes connections on. Each time cutAt is set, one connection is cut after so many bytes of answers.
func (s *store) proxy(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		upstream, err := net.Dial("tcp", s.server.Addr)
		if err != nil {
			_ = client.Close()
			continue
		}
		go func() { // ends when either side closes
			_, _ = io.Copy(upstream, client)
			_ = upstream.Close()
		}()
		go func() {
			defer client.Close()
			defer upstream.Close()
			if n := s.cutAt.Swap(0); n > 0 {
				_, _ = io.CopyN(client, upstream, n)
				s.cuts.Add(1)
				return
			}
			_, _ = io.Copy(client, upstream)
		}()
	}
}

// put stores data and returns its clip, without a URL.
func (s *store) put(key string, data []byte) protocol.ClaimClip {
	s.t.Helper()
	out, err := s.client.PutObject(s.t.Context(), &s3.PutObjectInput{Bucket: &s.server.Bucket, Key: &key, Body: bytes.NewReader(data)})
	if err != nil {
		s.t.Fatal(err)
	}
	size := int64(len(data))
	return protocol.ClaimClip{ID: "c1", Size: &size, SHA256: sum(data), ETag: aws.ToString(out.ETag)}
}

// get signs a GET as it would have been signed at the given time, valid for a minute.
func (s *store) get(key string, at time.Time) string {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.address+"/"+s.server.Bucket+"/"+key+"?X-Amz-Expires=60", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	creds := aws.Credentials{AccessKeyID: s.server.AccessKey, SecretAccessKey: s.server.SecretKey}
	signed, _, err := v4.NewSigner().PresignHTTP(s.t.Context(), creds, request, "UNSIGNED-PAYLOAD", "s3", s.server.Region, at)
	if err != nil {
		s.t.Fatal(err)
	}
	return signed
}

// presignPut is what a control plane does: exact length, type and sum are signed.
func (s *store) presignPut(key string, data []byte) protocol.ArtifactAnswer {
	s.t.Helper()
	digest := sha256.Sum256(data)
	signer := s3.NewPresignClient(s.client, func(o *s3.PresignOptions) {
		o.ClientOptions = append(o.ClientOptions, func(o *s3.Options) { o.BaseEndpoint = aws.String("http://" + s.address) })
	})
	signed, err := signer.PresignPutObject(s.t.Context(), &s3.PutObjectInput{
		Bucket: &s.server.Bucket, Key: &key, ContentLength: aws.Int64(int64(len(data))), ContentType: aws.String("application/json"),
		ChecksumSHA256: aws.String(base64.StdEncoding.EncodeToString(digest[:])),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	headers := protocol.Headers{}
	for name := range signed.SignedHeader {
		headers[name] = signed.SignedHeader.Get(name)
	}
	return protocol.ArtifactAnswer{URL: signed.URL, Headers: headers, Key: key}
}

func (s *store) claimcheck(counts *counter) *claimcheck.Client {
	s.t.Helper()
	secrets, err := webhook.ParseSecrets(secret)
	if err != nil {
		s.t.Fatal(err)
	}
	log := &safeBuffer{}
	client, err := claimcheck.New(claimcheck.Config{
		ControlURL: "http://control.test", Signer: webhook.NewSigner(secrets), StorageHosts: []string{"127.0.0.1"}, AllowInsecure: true,
		Observer: counts, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Limits: claimcheck.Limits{BackoffBase: time.Millisecond, BackoffCap: 10 * time.Millisecond},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		client.Close()
		checkShown(s.t, log.String())
	})
	return client
}

func TestS3Download(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	data := bytes.Repeat(clipData, 16) // 2 MiB
	now, past := time.Now(), time.Now().Add(-time.Hour)
	object := s.put("clip.mp4", data)
	stale := s.put("stale.mp4", data)
	s.put("stale.mp4", append(data, 1))
	tests := []struct {
		name      string
		clip      protocol.ClaimClip
		url       string
		fresh     string
		cutAt     int64
		code      protocol.Code
		retryable bool
		refreshes int
	}{
		{name: "plain", clip: object, url: s.get("clip.mp4", now)},
		{name: "cut and resumed", clip: object, url: s.get("clip.mp4", now), cutAt: 500_000},
		{name: "expired", clip: object, url: s.get("clip.mp4", past), fresh: s.get("clip.mp4", now), refreshes: 1},
		{name: "expired for ever", clip: object, url: s.get("clip.mp4", past), fresh: s.get("clip.mp4", past), refreshes: 3, code: protocol.CodeInputForbidden, retryable: true},
		{name: "tampered", clip: object, url: s.get("clip.mp4", now) + "0", fresh: s.get("clip.mp4", now) + "0", refreshes: 1, code: protocol.CodeInputForbidden, retryable: true},
		{name: "unsigned", clip: object, url: "http://" + s.address + "/posefleet/clip.mp4", fresh: "http://" + s.address + "/posefleet/clip.mp4", refreshes: 1, code: protocol.CodeInputForbidden, retryable: true},
		{name: "missing", clip: object, url: s.get("nothing.mp4", now), code: protocol.CodeInputMissing},
		{name: "overwritten", clip: stale, url: s.get("stale.mp4", now), fresh: s.get("stale.mp4", now), refreshes: 1, code: protocol.CodeInputMismatch},
	}
	for _, tc := range tests {
		// One after the other: they share the proxy's cut.
		t.Run(tc.name, func(t *testing.T) {
			counts := &counter{}
			client := s.claimcheck(counts)
			tc.clip.URL = tc.url
			s.cutAt.Store(tc.cutAt)
			refreshes := 0
			path := filepath.Join(t.TempDir(), "c1")
			err := client.Download(t.Context(), claimcheck.Download{Clip: tc.clip, Path: path, Refresh: func(context.Context) (protocol.ClaimClip, error) {
				refreshes++
				fresh := tc.clip
				fresh.URL = tc.fresh
				return fresh, nil
			}})
			if refreshes != tc.refreshes {
				t.Errorf("%d refreshes, want %d", refreshes, tc.refreshes)
			}
			if tc.code != "" {
				wantFault(t, err, tc.code, tc.retryable)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if tc.cutAt > 0 && (s.cuts.Load() != 1 || counts.downloaded() != int64(len(data))) {
				t.Errorf("%d cuts, %d bytes were fetched of %d", s.cuts.Load(), counts.downloaded(), len(data))
			}
		})
	}
}

func TestS3Upload(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	data := bytes.Repeat([]byte(`{"pose":1}`), 20_000)
	other := bytes.Repeat([]byte(`{"pose":2}`), 20_000)
	path, size := artifactFile(t, data), int64(len(data))
	client := s.claimcheck(&counter{})

	up := claimcheck.Upload{Target: s.presignPut("a/pose.json.gz", data), Path: path, Size: size, ContentType: "text/plain"}
	for range 2 { // the same bytes again are no fault
		if err := client.Upload(t.Context(), up); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := s.client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &s.server.Bucket, Key: aws.String("a/pose.json.gz")})
	if err != nil {
		t.Fatal(err)
	}
	defer stored.Body.Close()
	if got, err := io.ReadAll(stored.Body); err != nil || !bytes.Equal(got, data) || aws.ToString(stored.ContentType) != "application/json" {
		t.Errorf("%d bytes as %s, %v", len(got), aws.ToString(stored.ContentType), err)
	}

	up.Target = s.presignPut("a/other.json.gz", other)
	wantFault(t, client.Upload(t.Context(), up), protocol.CodeUploadFailed, true)
	up.Target = s.presignPut("a/short.json.gz", data[:100])
	wantFault(t, client.Upload(t.Context(), up), protocol.CodeUploadFailed, true)
	for _, key := range []string{"a/other.json.gz", "a/short.json.gz"} {
		if _, err := s.client.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &s.server.Bucket, Key: &key}); err == nil {
			t.Errorf("%s was stored with other bytes than signed", key)
		}
	}
}
