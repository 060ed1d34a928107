package webhook

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Names of the three headers.
const (
	HeaderID        = standardwebhooks.HeaderWebhookID
	HeaderTimestamp = standardwebhooks.HeaderWebhookTimestamp
	HeaderSignature = standardwebhooks.HeaderWebhookSignature
)

// Signer signs with all of its secrets, so that a receiver with any of them verifies while secrets rotate. It is
// safe for concurrent use.
type Signer struct {
	secrets []Secret
}

// NewSigner returns a Signer; secrets are newest first. Without a secret nothing is signed and every receiver
// refuses.
func NewSigner(secrets []Secret) *Signer { return &Signer{secrets: slices.Clone(secrets)} }

// Header returns the three headers for one try at a message. id names the message and is the same for all tries
// (it must not contain a dot, which parts the signed fields); at is the time of this try; body is sent as is.
func (s *Signer) Header(id string, at time.Time, body []byte) http.Header {
	signatures := make([]string, 0, len(s.secrets))
	for _, secret := range s.secrets {
		signatures = append(signatures, secret.sign(id, at, body))
	}
	h := make(http.Header, 3)
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(HeaderSignature, strings.Join(signatures, " "))
	return h
}

// NewID returns a new random message id, prefix_ and 26 characters.
func NewID(prefix string) string { return prefix + "_" + rand.Text() }

// sign returns "v1,<base64>".
func (s Secret) sign(id string, at time.Time, body []byte) string {
	// Neither call fails in v0.0.1: the key is raw and a MAC has no error. An empty signature would be refused.
	webhook, err := standardwebhooks.NewWebhookRaw(s.key())
	if err != nil {
		return ""
	}
	signature, err := webhook.Sign(id, at, body)
	if err != nil {
		return ""
	}
	return signature
}
