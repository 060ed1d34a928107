package storage

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// bucket is an S3 bucket, or a part of one, as storage.
type bucket struct {
	client  *s3.Client
	presign *s3.PresignClient
	creds   aws.CredentialsProvider
	name    string
	prefix  string
	life    time.Duration
	now     func() time.Time
}

func openS3(ctx context.Context, loc location, o Options) (*bucket, error) {
	load := []func(*config.LoadOptions) error{config.WithRegion(loc.region)}
	if o.Credentials != nil {
		load = append(load, config.WithCredentialsProvider(o.Credentials))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("s3 storage: %w", err)
	}
	cfg.Region = cmp.Or(cfg.Region, "us-east-1")
	client := s3.NewFromConfig(cfg, func(s *s3.Options) {
		// Otherwise the SDK signs the checksum of a body that it does not have.
		s.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		s.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		if loc.endpoint != "" {
			s.BaseEndpoint, s.UsePathStyle = aws.String(loc.endpoint), true
		}
	})

	return &bucket{
		client: client, presign: s3.NewPresignClient(client), creds: cfg.Credentials,
		name: loc.bucket, prefix: loc.prefix, life: o.Lifetime, now: o.Now,
	}, nil
}

// Close has nothing to give back: the SDK's connections are idle ones.
func (b *bucket) Close() error { return nil }

// Handler is nil: the bucket serves its URLs itself.
func (b *bucket) Handler() http.Handler { return nil }

func (b *bucket) key(key string) (*string, error) {
	if !validKey(key) {
		return nil, badKeyError(key)
	}

	return aws.String(path.Join(b.prefix, key)), nil
}

// SignGet allows reading the object.
func (b *bucket) SignGet(ctx context.Context, key string) (SignedURL, error) {
	k, err := b.key(key)
	if err != nil {
		return SignedURL{}, err
	}
	r, err := b.presign.PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: k}, s3.WithPresignExpires(b.life))
	if err != nil {
		return SignedURL{}, fmt.Errorf("presign GET of %s: %w", key, err)
	}

	return b.signed(ctx, r), nil
}

// SignPut allows writing exactly these bytes.
func (b *bucket) SignPut(ctx context.Context, p Put) (SignedURL, error) {
	k, err := b.key(p.Key)
	if err != nil {
		return SignedURL{}, err
	}
	sum, err := hex.DecodeString(p.SHA256)
	if err != nil {
		return SignedURL{}, fmt.Errorf("presign PUT of %s: the sha256 is not hex", p.Key)
	}
	r, err := b.presign.PresignPutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.name, Key: k, ContentLength: &p.Size, ContentType: &p.ContentType,
		ChecksumSHA256: aws.String(base64.StdEncoding.EncodeToString(sum)),
	}, s3.WithPresignExpires(b.life))
	if err != nil {
		return SignedURL{}, fmt.Errorf("presign PUT of %s: %w", p.Key, err)
	}

	return b.signed(ctx, r), nil
}

// signed is the presigned request as it has to be sent. Host and Content-Length are set by every client by itself.
func (b *bucket) signed(ctx context.Context, r *v4.PresignedHTTPRequest) SignedURL {
	u := SignedURL{URL: r.URL, ExpiresAt: b.now().Add(b.life).UTC().Truncate(time.Second)}
	for name, values := range r.SignedHeader {
		if name = http.CanonicalHeaderKey(name); name != "Host" && name != "Content-Length" {
			if u.Headers == nil {
				u.Headers = map[string]string{}
			}
			u.Headers[name] = strings.Join(values, ",")
		}
	}
	// A URL dies with the credentials that signed it, whatever it says itself.
	if c, err := b.creds.Retrieve(ctx); err == nil && c.CanExpire && c.Expires.Before(u.ExpiresAt) {
		u.ExpiresAt = c.Expires.UTC()
	}

	return u
}

// Stat describes the object.
func (b *bucket) Stat(ctx context.Context, key string) (Object, error) {
	k, err := b.key(key)
	if err != nil {
		return Object{}, ErrNotFound
	}
	h, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.name, Key: k, ChecksumMode: types.ChecksumModeEnabled})
	if _, missing := errors.AsType[*types.NotFound](err); missing {
		return Object{}, ErrNotFound
	}
	if err != nil {
		return Object{}, fmt.Errorf("stat %s: %w", key, err)
	}
	o := Object{Size: aws.ToInt64(h.ContentLength), ETag: aws.ToString(h.ETag), ContentType: aws.ToString(h.ContentType)}
	// The checksum of an upload in parts is one of the parts' checksums, and says so by its length.
	if sum, err := base64.StdEncoding.DecodeString(aws.ToString(h.ChecksumSHA256)); err == nil {
		o.SHA256 = hex.EncodeToString(sum)
	}

	return o, nil
}

// Open reads the object.
func (b *bucket) Open(ctx context.Context, key string) (io.ReadSeekCloser, Object, error) {
	o, err := b.Stat(ctx, key)
	if err != nil {
		return nil, o, err
	}
	k, err := b.key(key)

	return &bucketReader{bucket: b, ctx: ctx, key: k, object: o}, o, err
}

// bucketReader reads an object from wherever it was sought to, by one ranged GET per seek.
type bucketReader struct {
	bucket *bucket
	ctx    context.Context
	key    *string
	object Object
	offset int64
	body   io.ReadCloser
}

// Seek implements io.Seeker.
func (r *bucketReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.offset
	case io.SeekEnd:
		offset += r.object.Size
	}
	if offset < 0 {
		return r.offset, errors.New("seek before the start")
	}
	if offset != r.offset {
		_ = r.Close() // what was not read is not missed
		r.offset = offset
	}

	return offset, nil
}

// Read implements io.Reader.
func (r *bucketReader) Read(p []byte) (int, error) {
	if r.offset >= r.object.Size {
		return 0, io.EOF
	}
	if r.body == nil {
		g, err := r.bucket.client.GetObject(r.ctx, &s3.GetObjectInput{
			Bucket: &r.bucket.name, Key: r.key, IfMatch: &r.object.ETag, Range: aws.String(fmt.Sprintf("bytes=%d-", r.offset)),
		})
		if err != nil {
			return 0, fmt.Errorf("read object: %w", err)
		}
		r.body = g.Body
	}
	n, err := r.body.Read(p)
	r.offset += int64(n)

	return n, err
}

// Close implements io.Closer.
func (r *bucketReader) Close() error {
	if r.body == nil {
		return nil
	}
	body := r.body
	r.body = nil

	return body.Close()
}
