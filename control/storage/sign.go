package storage

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Names of the parameters of a signed URL.
const (
	paramExpires   = "X-Pf-Expires"
	paramSize      = "X-Pf-Size"
	paramSHA256    = "X-Pf-Sha256"
	paramType      = "X-Pf-Type"
	paramSignature = "X-Pf-Signature"
)

// grant is what one URL allows. put is empty unless the method is PUT.
type grant struct {
	method  string
	key     string
	expires time.Time
	put     Put
}

// signer signs and verifies grants. The MAC covers the method, so that a URL for reading can't write.
type signer struct{ key []byte }

func (s signer) mac(g grant) []byte {
	h := hmac.New(sha256.New, s.key)
	// Each field is quoted: no field can run into the next one.
	fmt.Fprintf(h, "posefleet-url-1 %q %q %d %d %q %q", g.method, g.key, g.expires.Unix(), g.put.Size, g.put.SHA256, g.put.ContentType)

	return h.Sum(nil)
}

// query is the signed part of the URL.
func (s signer) query(g grant) url.Values {
	q := url.Values{
		paramExpires:   {strconv.FormatInt(g.expires.Unix(), 10)},
		paramSignature: {hex.EncodeToString(s.mac(g))},
	}
	if g.method == http.MethodPut {
		q.Set(paramSize, strconv.FormatInt(g.put.Size, 10))
		q.Set(paramSHA256, g.put.SHA256)
		q.Set(paramType, g.put.ContentType)
	}

	return q
}

// verify reads the grant for this method and key out of the query; false if the signature is not for it.
func (s signer) verify(method, key string, q url.Values) (grant, bool) {
	g := grant{method: method, key: key}
	expires, err := strconv.ParseInt(q.Get(paramExpires), 10, 64)
	if err != nil {
		return g, false
	}
	g.expires = time.Unix(expires, 0)
	if method == http.MethodPut {
		size, err := strconv.ParseInt(q.Get(paramSize), 10, 64)
		if err != nil || size < 0 {
			return g, false
		}
		g.put = Put{Key: key, Size: size, SHA256: q.Get(paramSHA256), ContentType: q.Get(paramType)}
	}
	given, err := hex.DecodeString(q.Get(paramSignature))

	return g, err == nil && hmac.Equal(given, s.mac(g))
}
