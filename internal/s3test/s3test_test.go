package s3test_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/posefleet/posefleet/internal/s3test"
	"github.com/posefleet/posefleet/internal/wait"
)

// The server is worth its weight only if it refuses what a real store refuses.
func TestServerChecksSignatureAndExpiry(t *testing.T) {
	t.Parallel()

	s := s3test.Start(t)
	client := newClient(s)
	presign := s3.NewPresignClient(client)

	_, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &s.Bucket, Key: aws.String("a/b"), Body: strings.NewReader("hello")})
	if err != nil {
		t.Fatal(err)
	}

	get := &s3.GetObjectInput{Bucket: &s.Bucket, Key: aws.String("a/b")}

	good, err := presign.PresignGetObject(t.Context(), get, s3.WithPresignExpires(time.Minute))
	if err != nil {
		t.Fatal(err)
	}

	stale, err := presign.PresignGetObject(t.Context(), get, s3.WithPresignExpires(time.Second))
	if err != nil {
		t.Fatal(err)
	}

	tests := []struct {
		name, url string
		status    int
		body      string
	}{
		{"good", good.URL, http.StatusOK, "hello"},
		{"tampered signature", strings.Replace(good.URL, "X-Amz-Signature=", "X-Amz-Signature=0", 1), http.StatusForbidden, "SignatureDoesNotMatch"},
		{"other key", strings.Replace(good.URL, "/a/b", "/a/c", 1), http.StatusForbidden, "SignatureDoesNotMatch"},
		{"unsigned", s.URL + "/" + s.Bucket + "/a/b", http.StatusForbidden, "AccessDenied"},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body := fetch(t, tt.url)
			if status != tt.status || !strings.Contains(body, tt.body) {
				t.Fatalf("got %d %s, want %d with %q", status, body, tt.status, tt.body)
			}
		})
	}

	// An URL really expires: the same URL that was good a moment ago is refused.
	wait.For(t, time.Minute, func() bool {
		status, body := fetch(t, stale.URL)

		return status == http.StatusForbidden && strings.Contains(body, "Request has expired")
	}, "the URL of one second is still accepted")
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}

	return resp.StatusCode, string(body)
}

func newClient(s *s3test.Server) *s3.Client {
	return s3.New(s3.Options{
		Region:       s.Region,
		BaseEndpoint: &s.URL,
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, ""),
	})
}
