package storage_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/control/storage"
	"github.com/posefleet/posefleet/internal/s3test"
	"github.com/posefleet/posefleet/internal/wait"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		http.DefaultClient.CloseIdleConnections()
	}))
}

// answer is what came back: for a fault, the code and message of its document.
type answer struct {
	status        int
	header        http.Header
	body          string
	code, message string
}

// do sends one request as a worker would.
func do(t *testing.T, method, url string, header map[string]string, body []byte) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, body: string(raw)}
	var fault struct {
		XMLName       xml.Name `xml:"Error"`
		Code, Message string
	}
	if a.status >= 400 && len(raw) > 0 {
		if err := xml.Unmarshal(raw, &fault); err != nil {
			t.Fatalf("%d with %q: %v", a.status, raw, err)
		}
		a.code, a.message = fault.Code, fault.Message
	}

	return a
}

func (a answer) String() string { return fmt.Sprintf("%d %s %s", a.status, a.code, a.message) }

func sum(b []byte) string {
	s := sha256.Sum256(b)

	return hex.EncodeToString(s[:])
}

// putOf is the exact put of a body.
func putOf(key string, body []byte) storage.Put {
	return storage.Put{Key: key, Size: int64(len(body)), SHA256: sum(body), ContentType: "video/mp4"}
}

// mustPut stores a body through a signed URL.
func mustPut(t *testing.T, s storage.Storage, key string, body []byte) {
	t.Helper()
	u, err := s.SignPut(t.Context(), putOf(key, body))
	if err != nil {
		t.Fatal(err)
	}
	if a := do(t, http.MethodPut, u.URL, u.Headers, body); a.status != http.StatusOK {
		t.Fatal(a)
	}
}

func TestS3(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	open := func(t *testing.T, o storage.Options) storage.Storage {
		t.Helper()
		o.Credentials = credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, "")
		url := fmt.Sprintf("s3://%s/a/prefix?endpoint=%s&region=%s", server.Bucket, server.URL, server.Region)
		s, err := storage.Open(t.Context(), url, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })

		return s
	}
	t.Run("transfers", func(t *testing.T) { testTransfers(t, open(t, storage.Options{})) })
	t.Run("expiry", func(t *testing.T) {
		s := open(t, storage.Options{Lifetime: time.Second})
		mustPut(t, s, "k", []byte("body"))
		u, err := s.SignGet(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		var a answer
		wait.For(t, time.Minute, func() bool {
			a = do(t, http.MethodGet, u.URL, u.Headers, nil)

			return a.status != http.StatusOK
		}, "the URL never expires")
		wantExpired(t, a)
	})
	t.Run("server gone", func(t *testing.T) {
		s := open(t, storage.Options{})
		server.Kill()
		if _, err := s.Stat(t.Context(), "k"); err == nil || errors.Is(err, storage.ErrNotFound) {
			t.Fatalf("stat without a server: %v; that must not look like a missing object", err)
		}
	})
}

// wantExpired: the text by which a worker knows that fresh URLs will help.
func wantExpired(t *testing.T, a answer) {
	t.Helper()
	if a.status != http.StatusForbidden || a.code != "AccessDenied" || !strings.HasPrefix(a.message, "Request has expired") {
		t.Fatalf("expired: %v", a)
	}
}

// testTransfers is what a worker relies on, whichever kind of storage it is.
func testTransfers(t *testing.T, s storage.Storage) {
	t.Helper()
	const key = "analyses/an_1/clips/c1"
	body := bytes.Repeat([]byte("0123456789"), 1000)
	if _, err := s.Stat(t.Context(), key); !errors.Is(err, storage.ErrNotFound) {
		t.Fatalf("stat before: %v", err)
	}
	if _, _, err := s.Open(t.Context(), key); !errors.Is(err, storage.ErrNotFound) {
		t.Fatalf("open before: %v", err)
	}
	for _, odd := range []string{"", "..", "a/../b", "a\x00b", strings.Repeat("x", 300), strings.Repeat("x", 3000)} {
		if _, err := s.Stat(t.Context(), odd); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("stat of %.20q: %v", odd, err)
		}
	}
	get, err := s.SignGet(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if a := do(t, http.MethodGet, get.URL, get.Headers, nil); a.status != http.StatusNotFound || a.code != "NoSuchKey" {
		t.Fatalf("get before: %v", a)
	}
	testRefusedPuts(t, s, key, body)
	mustPut(t, s, key, body)
	mustPut(t, s, key, body) // an answer that was lost
	o, err := s.Stat(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if want := (storage.Object{Size: 10000, SHA256: sum(body), ContentType: "video/mp4", ETag: o.ETag}); o != want || o.ETag == "" {
		t.Fatalf("stat: %+v", o)
	}
	testGets(t, get, o, body)
	testOpen(t, s, key, body)
}

// testRefusedPuts tries to write something else than what was signed.
func testRefusedPuts(t *testing.T, s storage.Storage, key string, body []byte) {
	t.Helper()
	u, err := s.SignPut(t.Context(), putOf(key, body))
	if err != nil {
		t.Fatal(err)
	}
	headers := func(change func(h map[string]string)) map[string]string {
		h := maps.Clone(u.Headers)
		change(h)

		return h
	}
	same := func(map[string]string) {}
	flipped := bytes.Clone(body)
	flipped[5000] ^= 1
	for _, c := range []struct {
		name   string
		method string
		url    string
		header map[string]string
		body   []byte
		code   string
	}{
		{"longer", "PUT", u.URL, headers(same), append(bytes.Clone(body), 'x'), "SignatureDoesNotMatch"},
		{"shorter", "PUT", u.URL, headers(same), body[1:], "SignatureDoesNotMatch"},
		{"other type", "PUT", u.URL, headers(func(h map[string]string) { h["Content-Type"] = "text/html" }), body, "SignatureDoesNotMatch"},
		{"other content", "PUT", u.URL, headers(same), flipped, "BadDigest"},
		{"other key", "PUT", strings.Replace(u.URL, "/c1?", "/c2?", 1), headers(same), body, "SignatureDoesNotMatch"},
		{"read with the URL for writing", "GET", u.URL, nil, nil, "SignatureDoesNotMatch"},
	} {
		if a := do(t, c.method, c.url, c.header, c.body); a.status < 400 || a.status >= 500 || (a.code != c.code && a.code != "AccessDenied") {
			t.Errorf("%s: %v", c.name, a)
		}
		if _, err := s.Stat(t.Context(), key); !errors.Is(err, storage.ErrNotFound) {
			t.Fatalf("%s left something behind: %v", c.name, err)
		}
	}
}

func testGets(t *testing.T, get storage.SignedURL, o storage.Object, body []byte) {
	t.Helper()
	for _, c := range []struct {
		name   string
		method string
		url    string
		header map[string]string
		status int
		want   string // body, or code of a fault
	}{
		{"whole", "GET", get.URL, nil, 200, string(body)},
		{"range", "GET", get.URL, map[string]string{"Range": "bytes=10-14"}, 206, "01234"},
		{"rest with the right ETag", "GET", get.URL, map[string]string{"Range": "bytes=9990-", "If-Match": o.ETag}, 206, "0123456789"},
		{"rest with a stale ETag", "GET", get.URL, map[string]string{"Range": "bytes=9990-", "If-Match": `"00"`}, 412, "PreconditionFailed"},
		{"past the end", "GET", get.URL, map[string]string{"Range": "bytes=10000-"}, 416, "InvalidRange"},
		{"HEAD with the URL for reading", "HEAD", get.URL, nil, 403, ""},
		{"another signature", "GET", get.URL[:len(get.URL)-1] + flip(get.URL[len(get.URL)-1]), nil, 403, "SignatureDoesNotMatch"},
		{"write with the URL for reading", "PUT", get.URL, map[string]string{"Content-Type": "video/mp4"}, 403, "SignatureDoesNotMatch"},
	} {
		a := do(t, c.method, c.url, c.header, nil)
		got := a.body
		if a.status >= 400 {
			got = a.code
		}
		if a.status != c.status || got != c.want {
			t.Errorf("%s: %v, body of %d bytes", c.name, a, len(a.body))
		}
		if a.status < 300 && a.header.Get("ETag") != o.ETag {
			t.Errorf("%s: ETag %s, want %s", c.name, a.header.Get("ETag"), o.ETag)
		}
		if a.status == 206 && !strings.HasSuffix(a.header.Get("Content-Range"), "/10000") {
			t.Errorf("%s: Content-Range %s", c.name, a.header.Get("Content-Range"))
		}
	}
}

// flip gives another last character of a hex signature.
func flip(c byte) string {
	if c == '0' {
		return "1"
	}

	return "0"
}

func testOpen(t *testing.T, s storage.Storage, key string, body []byte) {
	t.Helper()
	r, o, err := s.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if end, err := r.Seek(0, io.SeekEnd); err != nil || end != o.Size {
		t.Fatalf("end at %d, %v", end, err)
	}
	for _, at := range []int64{9995, 0, 4321} {
		if _, err := r.Seek(at, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if d := cmp.Diff(body[at:], got); err != nil || d != "" {
			t.Fatalf("from %d: %v %s", at, err, d)
		}
	}
	if _, err := r.Seek(-1, io.SeekStart); err == nil {
		t.Fatal("seek before the start")
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"file:./storage":            true,
		"file:/var/lib/posefleet":   true,
		"file:///var/lib/posefleet": true,
		"file:":                     false,
		"s3://bucket":               true,
		"s3://bucket/some/prefix":   true,
		"s3://bucket?endpoint=http://127.0.0.1:9000":             true,
		"s3://bucket?endpoint=https://minio.example&region=eu-1": true,
		"s3://bucket?endpoint=minio.example":                     false,
		"s3://bucket?endpoint=http://user:pw@minio.example":      false,
		"s3://bucket?acl=public":                                 false,
		"s3://bucket/a/../b":                                     false,
		"s3://":                                                  false,
		"gs://bucket":                                            false,
		"./storage":                                              false,
		"":                                                       false,
	} {
		if err := storage.CheckURL(url); (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
	}
}
