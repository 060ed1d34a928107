package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/posefleet/posefleet/protocol"
)

// Tolerance is how far a message's timestamp may be off, either way.
const Tolerance = 5 * time.Minute

const (
	maxIDLength        = 256
	maxSignatureLength = 4096
)

// Reasons why a message is refused: causes of the fault that Verify returns, for the local log only. The peer
// is not told which check failed.
var (
	ErrHeader    = errors.New("a signature header is missing, repeated or malformed")
	ErrTimestamp = errors.New("the timestamp is not a whole number of Unix seconds")
	ErrSignature = errors.New("no signature fits")
	// ErrStale is only given for a message whose signature fits: one of the two clocks is off, or it is a replay.
	ErrStale = errors.New("the timestamp is too far from this clock")
)

// Verifier accepts what any of its secrets signed. It keeps no memory of ids: whoever acts on a message decides
// what a repeated id means. It is safe for concurrent use once its fields are set.
type Verifier struct {
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Tolerance is how far the timestamp may be off, either way; 0 means 5 minutes.
	Tolerance time.Duration

	secrets []Secret
}

// NewVerifier returns a Verifier. Without a secret it refuses everything.
func NewVerifier(secrets []Secret) *Verifier { return &Verifier{secrets: slices.Clone(secrets)} }

// Verify checks the signature over body and the timestamp and returns the message's id. Each header has to be
// there in exactly one line; a signature line may hold several signatures, of which only those of scheme v1
// count. Any fault is a *protocol.Fault with CodeUnauthorized and always the same message.
func (v *Verifier) Verify(h http.Header, body []byte) (string, error) {
	m, err := readHeaders(h)
	if err != nil {
		return "", refused(err)
	}
	if !v.signedByAny(m, body) {
		return "", refused(ErrSignature)
	}
	// After the signature, so that ErrStale speaks of a real peer's clock and can be alarmed on.
	if err := v.checkTime(m.at); err != nil {
		return "", refused(err)
	}
	return m.id, nil
}

// message is what the three headers say.
type message struct {
	id, timestamp, signatures string
	at                        time.Time
}

func readHeaders(h http.Header) (message, error) {
	var m message
	var err error
	if m.id, err = only(h, HeaderID, maxIDLength); err != nil {
		return m, err
	}
	if m.signatures, err = only(h, HeaderSignature, maxSignatureLength); err != nil {
		return m, err
	}
	if m.timestamp, err = only(h, HeaderTimestamp, 20); err != nil {
		return m, err
	}
	if !plainID(m.id) {
		return m, fmt.Errorf("%s: %w", HeaderID, ErrHeader)
	}
	m.at, err = parseTimestamp(m.timestamp)
	return m, err
}

// only returns the header's value if it has exactly one line. Names are compared without regard to case, also
// for headers that a gateway handed over in a map of its own.
func only(h http.Header, name string, maxLength int) (string, error) {
	var found []string
	for key, values := range h {
		if strings.EqualFold(key, name) {
			found = append(found, values...)
		}
	}
	if len(found) != 1 || found[0] == "" || len(found[0]) > maxLength {
		return "", fmt.Errorf("%s: %w", name, ErrHeader)
	}
	return found[0], nil
}

// plainID tells whether id is visible ASCII without the dot that parts the signed fields.
func plainID(id string) bool {
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' || c == '.' {
			return false
		}
	}
	return id != ""
}

// parseTimestamp reads digits in canonical form only: no sign, no leading zero, no fraction. Milliseconds are a
// number too, but far in the future.
func parseTimestamp(text string) (time.Time, error) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds <= 0 || strconv.FormatInt(seconds, 10) != text {
		return time.Time{}, ErrTimestamp
	}
	return time.Unix(seconds, 0), nil
}

// signedByAny tries every secret, also after a hit, so that the time taken does not tell which one fitted.
func (v *Verifier) signedByAny(m message, body []byte) bool {
	h := http.Header{}
	h.Set(HeaderID, m.id)
	h.Set(HeaderTimestamp, m.timestamp)
	h.Set(HeaderSignature, m.signatures)
	fits := false
	for _, secret := range v.secrets {
		if secret.fits(h, body) {
			fits = true
		}
	}
	return fits
}

func (s Secret) fits(h http.Header, body []byte) bool {
	if len(s.key()) == 0 {
		return false
	}
	webhook, err := standardwebhooks.NewWebhookRaw(s.key())
	return err == nil && webhook.VerifyIgnoringTimestamp(body, h) == nil
}

func (v *Verifier) checkTime(at time.Time) error {
	now, tolerance := time.Now, v.Tolerance
	if v.Now != nil {
		now = v.Now
	}
	if tolerance == 0 {
		tolerance = Tolerance
	}
	if off := at.Sub(now()); off > tolerance || off < -tolerance {
		return fmt.Errorf("%w: off by %s", ErrStale, off.Round(time.Second))
	}
	return nil
}

func refused(cause error) error {
	return protocol.NewFault(protocol.CodeUnauthorized, "the signature is missing or not valid").WithCause(cause)
}
