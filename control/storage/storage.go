// Package storage keeps clips and pose documents and hands out URLs with which a worker reads or writes exactly one of
// them for a quarter of an hour, without having a credential of its own.
//
// There are two kinds. "file:DIR" is a folder; its URLs are signed with a key of the control plane, which also serves
// them. "s3://BUCKET/PREFIX" is a bucket; its URLs are presigned. Both behave alike towards a worker: ranges and
// If-Match on reading, exact length, type and SHA-256 on writing, and faults as S3's XML documents with S3's codes,
// so that a worker needs to know only one kind.
package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// URLLifetime is how long a URL may be used to begin a transfer, if nothing else is said.
const URLLifetime = 15 * time.Minute

// HandlerPath is where the control plane has to serve the handler of a file storage.
const HandlerPath = "/storage/"

// ErrNotFound says that there is no object with this key.
var ErrNotFound = errors.New("no such object")

// Object describes what is stored. SHA256 is hex, or empty where the storage can't tell. ETag has its quotes.
type Object struct {
	Size        int64
	SHA256      string
	ETag        string
	ContentType string
}

// Put is what exactly may be written. SHA256 is hex.
type Put struct {
	Key         string
	Size        int64
	SHA256      string
	ContentType string
}

// SignedURL allows one transfer. Headers have to be sent with it as they are.
type SignedURL struct {
	URL       string
	Headers   map[string]string
	ExpiresAt time.Time
}

// Storage is where objects are. Keys are paths of letters, digits, "_", "-" and "." with slashes between.
// All methods are safe for concurrent use.
type Storage interface {
	// SignGet allows reading the object, whether it exists or not.
	SignGet(ctx context.Context, key string) (SignedURL, error)
	// SignPut allows writing exactly these bytes. Writing them again is allowed and changes nothing.
	SignPut(ctx context.Context, p Put) (SignedURL, error)
	// Stat describes the object, or is ErrNotFound, also for a key that no object can have: who asks may have it from elsewhere.
	Stat(ctx context.Context, key string) (Object, error)
	// Open reads the object, or is ErrNotFound. Seeking costs nothing before the next Read.
	Open(ctx context.Context, key string) (io.ReadSeekCloser, Object, error)
	// Handler serves the signed URLs below HandlerPath, or is nil where others serve them.
	Handler() http.Handler
	// Close gives back what is held open.
	Close() error
}

// Options are the settings of Open.
type Options struct {
	// BaseURL is the public address of the control plane, for URLs of a file storage.
	BaseURL string
	// SigningKey signs the URLs of a file storage, at least 32 bytes.
	SigningKey []byte
	// Lifetime is how long a URL may be used to begin a transfer; 0 means URLLifetime. Whole seconds.
	Lifetime time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger hears of faults of the disk; nil means none.
	Logger *slog.Logger
	// Credentials are for S3; nil means those that the AWS SDK finds by itself.
	Credentials aws.CredentialsProvider
}

// location is a parsed storage URL: a folder, or a bucket.
type location struct {
	dir                              string
	bucket, prefix, endpoint, region string
}

// CheckURL tells whether Open would understand the URL, without touching the storage.
func CheckURL(storageURL string) error {
	_, err := parse(storageURL)

	return err
}

// Open opens "file:DIR" or "s3://BUCKET/PREFIX?endpoint=URL&region=NAME".
func Open(ctx context.Context, storageURL string, o Options) (Storage, error) {
	loc, err := parse(storageURL)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Lifetime = cmp.Or(o.Lifetime, URLLifetime)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if loc.bucket != "" {
		return opened(openS3(ctx, loc, o))
	}

	return opened(openFile(loc.dir, o))
}

// opened keeps a nil pointer from becoming a Storage that is not nil.
func opened[S Storage](s S, err error) (Storage, error) {
	if err != nil {
		return nil, err
	}

	return s, nil
}

func parse(storageURL string) (location, error) {
	if dir, ok := strings.CutPrefix(storageURL, "file:"); ok {
		dir = strings.TrimPrefix(dir, "//")
		if dir == "" {
			return location{}, errors.New("file: needs a folder, as in file:./storage")
		}

		return location{dir: dir}, nil
	}
	u, err := url.Parse(storageURL)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return location{}, errors.New("a storage URL is file:DIR or s3://bucket/prefix?endpoint=…&region=…")
	}
	loc := location{bucket: u.Host, prefix: strings.Trim(u.Path, "/")}
	if loc.prefix != "" && !validKey(loc.prefix) {
		return location{}, errors.New("s3: the prefix is a path of letters, digits, dots, _ and -")
	}
	for name, values := range u.Query() {
		switch name {
		case "endpoint":
			loc.endpoint = values[0]
		case "region":
			loc.region = values[0]
		default:
			return location{}, fmt.Errorf("s3: %q is not known, only endpoint and region are", name)
		}
	}
	if loc.endpoint == "" {
		return loc, nil
	}
	if e, err := url.Parse(loc.endpoint); err != nil || e.Host == "" || (e.Scheme != "http" && e.Scheme != "https") || e.User != nil {
		return location{}, errors.New("s3: endpoint is an http or https URL")
	}

	return loc, nil
}

// validKey tells whether the key is a relative path of plain names: no name is empty or begins with a dot.
func validKey(key string) bool {
	if len(key) > 900 {
		return false
	}
	for name := range strings.SplitSeq(key, "/") {
		if name == "" || name[0] == '.' || strings.ContainsFunc(name, oddRune) {
			return false
		}
	}

	return true
}

func oddRune(r rune) bool {
	letter := (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9')

	return !letter && r != '_' && r != '-' && r != '.'
}

// badKeyError is a key that no caller should have made.
func badKeyError(key string) error { return fmt.Errorf("storage key %q is not a plain path", key) }
