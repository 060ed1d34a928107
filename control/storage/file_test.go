package storage_test

import (
	"bufio"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control/storage"
	"github.com/posefleet/posefleet/internal/wait"
)

// fileBundle is a file storage behind a server of its own.
type fileBundle struct {
	storage.Storage
	dir    string
	server *httptest.Server
	mu     sync.Mutex
	now    time.Time
}

func (b *fileBundle) Now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.now
}

func (b *fileBundle) advance(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

func newFile(t *testing.T) *fileBundle {
	t.Helper()
	b := &fileBundle{dir: filepath.Join(t.TempDir(), "store"), now: time.Now()}
	mux := http.NewServeMux()
	b.server = httptest.NewServer(mux)
	t.Cleanup(b.server.Close)
	b.Storage = openFile(t, b, strings.Repeat("k", 32))
	mux.Handle(storage.HandlerPath, b.Handler())

	return b
}

func openFile(t *testing.T, b *fileBundle, key string) storage.Storage {
	t.Helper()
	s, err := storage.Open(t.Context(), "file:"+b.dir, storage.Options{BaseURL: b.server.URL, SigningKey: []byte(key), Now: b.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })

	return s
}

// left lists the temporary files.
func (b *fileBundle) left(t *testing.T) []os.DirEntry {
	t.Helper()
	all, err := os.ReadDir(filepath.Join(b.dir, "tmp"))
	if err != nil {
		t.Fatal(err)
	}

	return all
}

func TestFileTransfers(t *testing.T) {
	t.Parallel()
	b := newFile(t)
	testTransfers(t, b)
	if all := b.left(t); len(all) != 0 {
		t.Fatalf("temporary files left: %v", all)
	}
}

func TestFileExpiry(t *testing.T) {
	t.Parallel()
	b := newFile(t)
	mustPut(t, b, "k", []byte("body"))
	get, err := b.SignGet(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	put, err := b.SignPut(t.Context(), putOf("k2", []byte("body")))
	if err != nil {
		t.Fatal(err)
	}
	b.advance(storage.URLLifetime - 2*time.Second)
	if a := do(t, http.MethodGet, get.URL, get.Headers, nil); a.status != http.StatusOK {
		t.Fatalf("just before: %v", a)
	}
	b.advance(2 * time.Second)
	if !get.ExpiresAt.After(b.Now().Add(-2 * time.Second)) {
		t.Fatalf("expiresAt %s, now %s", get.ExpiresAt, b.Now())
	}
	wantExpired(t, do(t, http.MethodGet, get.URL, get.Headers, nil))
	wantExpired(t, do(t, http.MethodPut, put.URL, put.Headers, []byte("body")))
}

// Every parameter is signed: changing, adding to or leaving out any of them is refused.
func TestFileTampered(t *testing.T) {
	t.Parallel()
	b := newFile(t)
	body := []byte("body")
	mustPut(t, b, "a/b", body)
	get, err := b.SignGet(t.Context(), "a/b")
	if err != nil {
		t.Fatal(err)
	}
	put, err := b.SignPut(t.Context(), putOf("a/c", body))
	if err != nil {
		t.Fatal(err)
	}
	for method, signed := range map[string]storage.SignedURL{http.MethodGet: get, http.MethodPut: put} {
		u, err := url.Parse(signed.URL)
		if err != nil {
			t.Fatal(err)
		}
		for name := range u.Query() {
			for _, value := range []string{"", "9", u.Query().Get(name) + "0", "9999999999"} {
				q := u.Query()
				q.Set(name, value)
				v := *u
				v.RawQuery = q.Encode()
				if a := do(t, method, v.String(), signed.Headers, body); a.status != http.StatusForbidden || a.code != "SignatureDoesNotMatch" {
					t.Errorf("%s with %s=%q: %v", method, name, value, a)
				}
			}
		}
	}
	for _, path := range []string{"a/../a/b", "a%2Fb/../b", "../data/a/b", ".", "", "a//b", "a/b/", "a/.hidden"} {
		u := b.server.URL + storage.HandlerPath + path + get.URL[strings.Index(get.URL, "?"):]
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u, nil)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		b.Handler().ServeHTTP(w, r)
		if w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	other := openFile(t, b, strings.Repeat("o", 32))
	if u, err := other.SignGet(t.Context(), "a/b"); err != nil || do(t, http.MethodGet, u.URL, nil, nil).status != http.StatusForbidden {
		t.Errorf("a URL of another key is served: %v", err)
	}
	if a := do(t, http.MethodDelete, get.URL, nil, nil); a.status != http.StatusMethodNotAllowed || a.code != "MethodNotAllowed" {
		t.Errorf("DELETE: %v", a)
	}
}

// A sender that dies half-way leaves nothing; another one with the same URL can do the whole.
func TestFileCutUpload(t *testing.T) {
	t.Parallel()
	b := newFile(t)
	body := []byte(strings.Repeat("x", 1<<20))
	u, err := b.SignPut(t.Context(), putOf("k", body))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	parsed, err := url.Parse(u.URL)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: x\r\nContent-Type: video/mp4\r\nContent-Length: %d\r\n\r\n", parsed.RequestURI(), len(body))
	if _, err := conn.Write(body[:1000]); err != nil {
		t.Fatal(err)
	}
	wait.For(t, time.Minute, func() bool { return len(b.left(t)) == 1 }, "the upload never began")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Fatalf("cut upload: %d", resp.StatusCode)
	}
	wait.For(t, time.Minute, func() bool { return len(b.left(t)) == 0 }, "the temporary file stays")
	mustPut(t, b, "k", body)
}

// Twenty uploads of the same object at once end in one whole object.
func TestFileParallelUploads(t *testing.T) {
	t.Parallel()
	b := newFile(t)
	body := []byte(strings.Repeat("0123456789abcdef", 1<<12))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { mustPut(t, b, "k", body) })
	}
	wg.Wait()
	if o, err := b.Stat(t.Context(), "k"); err != nil || o.SHA256 != sum(body) || len(b.left(t)) != 0 {
		t.Fatalf("%+v, %v, left %v", o, err, b.left(t))
	}
}

// Foreign bytes are served from the operators' origin: a browser must not run them.
func TestFileHarmless(t *testing.T) {
	t.Parallel()
	b := newFile(t)
	mustPut(t, b, "k", []byte("<script>"))
	u, err := b.SignGet(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	h := do(t, http.MethodGet, u.URL, nil, nil).header
	if h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
		t.Fatalf("%v", h)
	}
}

func TestFileStart(t *testing.T) {
	t.Parallel()
	b := newFile(t)
	old, fresh := filepath.Join(b.dir, "tmp", "old"), filepath.Join(b.dir, "tmp", "fresh")
	for _, name := range []string{old, fresh} {
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	long := b.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	openFile(t, b, strings.Repeat("k", 32))
	if all := b.left(t); len(all) != 1 || all[0].Name() != "fresh" {
		t.Fatalf("left %v: an upload that may still run is not swept", all)
	}
	if _, err := storage.Open(t.Context(), "file:"+b.dir, storage.Options{SigningKey: []byte("short")}); err == nil {
		t.Fatal("a short signing key")
	}
	if _, err := storage.Open(t.Context(), "file:/proc/self/nowhere", storage.Options{SigningKey: make([]byte, 32)}); err == nil {
		t.Fatal("a folder that can't be made")
	}
}

// What is damaged on disk is a fault of ours (500, try again), never a missing clip (404, for good).
func TestFileDamaged(t *testing.T) {
	t.Parallel()
	b := newFile(t)
	mustPut(t, b, "k", []byte("body"))
	if err := os.Truncate(filepath.Join(b.dir, "data", "k"), 2); err != nil {
		t.Fatal(err)
	}
	u, err := b.SignGet(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if a := do(t, http.MethodGet, u.URL, nil, nil); a.status != http.StatusInternalServerError || a.code != "InternalError" {
		t.Fatal(a)
	}
	for _, key := range []string{"", "..", "a/../b", "/a", "a b", "ä"} {
		if _, err := b.SignGet(t.Context(), key); err == nil {
			t.Errorf("key %q is signed", key)
		}
		if _, err := b.Stat(t.Context(), key); err == nil {
			t.Errorf("key %q is looked at", key)
		}
	}
	if _, err := fs.Stat(os.DirFS(b.dir), "data/k"); err != nil {
		t.Fatal(err)
	}
}
