package storage

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path"
	"syscall"
	"time"
)

// Folders of a file storage. An object is data/KEY with its description in meta/KEY.json. The description is written
// first and the data is moved into place last, so that an object is there in whole or not at all.
const (
	dataDir = "data"
	metaDir = "meta"
	tempDir = "tmp"
)

// tempAge is how old a temporary file is before it counts as left behind by a process that died.
const tempAge = 24 * time.Hour

// file is a folder as storage.
type file struct {
	root *os.Root
	base string
	sign signer
	life time.Duration
	now  func() time.Time
	log  *slog.Logger
}

func openFile(dir string, o Options) (*file, error) {
	if len(o.SigningKey) < 32 {
		return nil, errors.New("file storage: the signing key is shorter than 32 bytes")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("file storage: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("file storage: %w", err)
	}
	f := &file{root: root, base: o.BaseURL, sign: signer{key: o.SigningKey}, life: o.Lifetime, now: o.Now, log: o.Logger}
	for _, name := range []string{dataDir, metaDir, tempDir} {
		err = errors.Join(err, root.MkdirAll(name, 0o700))
	}
	if err = errors.Join(err, f.sweepTemp()); err != nil {
		return nil, errors.Join(fmt.Errorf("file storage: %w", err), root.Close())
	}

	return f, nil
}

// sweepTemp removes what uploads left behind whose process died.
func (f *file) sweepTemp() error {
	entries, err := fs.ReadDir(f.root.FS(), tempDir)
	for _, e := range entries {
		info, statErr := e.Info()
		if statErr == nil && f.now().Sub(info.ModTime()) > tempAge {
			err = errors.Join(err, f.root.Remove(path.Join(tempDir, e.Name())))
		}
	}

	return err
}

// Close gives the folder back.
func (f *file) Close() error { return f.root.Close() }

// SignGet allows reading the object.
func (f *file) SignGet(_ context.Context, key string) (SignedURL, error) {
	return f.signed(grant{method: http.MethodGet, key: key})
}

// SignPut allows writing exactly these bytes.
func (f *file) SignPut(_ context.Context, p Put) (SignedURL, error) {
	u, err := f.signed(grant{method: http.MethodPut, key: p.Key, put: p})
	u.Headers = map[string]string{"Content-Type": p.ContentType}

	return u, err
}

func (f *file) signed(g grant) (SignedURL, error) {
	if !validKey(g.key) {
		return SignedURL{}, badKeyError(g.key)
	}
	g.expires = f.now().Add(f.life).Truncate(time.Second)
	link := f.base + HandlerPath + (&url.URL{Path: g.key}).EscapedPath() + "?" + f.sign.query(g).Encode()

	return SignedURL{URL: link, ExpiresAt: g.expires.UTC()}, nil
}

// meta is the description of an object.
type meta struct {
	Size        int64  `json:"size"`
	SHA256      string `json:"sha256"`
	ContentType string `json:"contentType"`
}

// Stat describes the object.
func (f *file) Stat(_ context.Context, key string) (Object, error) {
	if !validKey(key) {
		return Object{}, ErrNotFound
	}
	info, err := f.root.Stat(path.Join(dataDir, key))
	if nowhere(err) || (err == nil && info.IsDir()) {
		return Object{}, ErrNotFound
	}
	if err != nil {
		return Object{}, fmt.Errorf("stat %s: %w", key, err)
	}
	raw, err := f.root.ReadFile(path.Join(metaDir, key+".json"))
	if err != nil {
		return Object{}, fmt.Errorf("stat %s: %w", key, err)
	}
	var m meta
	if err := json.Unmarshal(raw, &m); err != nil {
		return Object{}, fmt.Errorf("stat %s: %w", key, err)
	}
	if m.Size != info.Size() {
		return Object{}, fmt.Errorf("stat %s: %d bytes on disk, %d expected", key, info.Size(), m.Size)
	}

	return Object{Size: m.Size, SHA256: m.SHA256, ETag: `"` + m.SHA256 + `"`, ContentType: m.ContentType}, nil
}

// nowhere tells whether there is nothing by this name, and can't be: an object is no folder, and a file system has names that are too long for it.
func nowhere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG)
}

// Open reads the object.
func (f *file) Open(ctx context.Context, key string) (io.ReadSeekCloser, Object, error) {
	o, err := f.Stat(ctx, key)
	if err != nil {
		return nil, o, err
	}
	r, err := f.root.Open(path.Join(dataDir, key))
	if err != nil {
		return nil, o, fmt.Errorf("open %s: %w", key, err)
	}

	return r, o, nil
}

// temp makes an empty temporary file.
func (f *file) temp() (*os.File, string, error) {
	name := path.Join(tempDir, rand.Text())
	w, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)

	return w, name, err
}

// commit moves a complete temporary file into place.
func (f *file) commit(temp string, p Put) error {
	raw, err := json.Marshal(meta{Size: p.Size, SHA256: p.SHA256, ContentType: p.ContentType})
	if err != nil {
		return err
	}
	w, metaTemp, err := f.temp()
	if err != nil {
		return err
	}
	_, err = w.Write(raw)
	err = errors.Join(err, w.Sync(), w.Close())
	if err == nil {
		err = f.move(metaTemp, path.Join(metaDir, p.Key+".json"))
	}
	if err != nil {
		return errors.Join(err, f.root.RemoveAll(metaTemp))
	}

	return f.move(temp, path.Join(dataDir, p.Key))
}

// move renames a file and makes the new name last.
func (f *file) move(from, to string) error {
	if err := f.root.MkdirAll(path.Dir(to), 0o700); err != nil {
		return err
	}
	if err := f.root.Rename(from, to); err != nil {
		return err
	}
	dir, err := f.root.Open(path.Dir(to))
	if err != nil {
		return err
	}

	return errors.Join(dir.Sync(), dir.Close())
}
