package webhook

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// MinSecretBytes is the shortest key that is accepted, as the specification demands.
const MinSecretBytes = 24

const (
	secretPrefix = "whsec_"
	redacted     = "whsec_[redacted]"
)

// Faults of a secret. No error of this package holds any part of a secret.
var (
	ErrNoSecret     = errors.New("no secret is given")
	ErrSecretForm   = errors.New("a secret is whsec_ followed by padded standard base64, without quotes")
	ErrSecretLength = fmt.Errorf("a secret has at least %d bytes", MinSecretBytes)
)

// Secret is one signing key. Every way of printing it shows a placeholder; Fingerprint is what may be logged.
// The zero value is no key: it verifies nothing.
type Secret struct {
	// A closure, because fmt does not call the methods of values in unexported fields (a Secret inside a Signer
	// or a config) and would print bytes, and for some verbs also bytes behind a pointer.
	material func() []byte
}

// key returns the raw key, nil for the zero value.
func (s Secret) key() []byte {
	if s.material == nil {
		return nil
	}
	return s.material()
}

// ParseSecrets reads a comma-separated list of secrets, newest first. White space and line ends around each are
// trimmed, since secrets come from files and task definitions; anything else that is not whsec_ and padded
// standard base64 of at least 24 bytes is refused (ErrNoSecret, ErrSecretForm, ErrSecretLength), so that a quote
// or a lost character is found at start and not as a signature that never fits.
func ParseSecrets(list string) ([]Secret, error) {
	if strings.TrimSpace(list) == "" {
		return nil, ErrNoSecret
	}
	parts := strings.Split(list, ",")
	secrets := make([]Secret, 0, len(parts))
	for i, part := range parts {
		s, err := parseSecret(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("secret %d of %d: %w", i+1, len(parts), err)
		}
		secrets = append(secrets, s)
	}
	return secrets, nil
}

// Generate returns a new random secret of 32 bytes in its text form. It is the only function that gives a
// secret away, to whoever has to store it.
func Generate() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails: crypto/rand ends the program instead
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

func parseSecret(text string) (Secret, error) {
	if text == "" {
		return Secret{}, ErrNoSecret
	}
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	// The decoder skips line ends inside the text; a secret that was wrapped is a broken one for other readers.
	if !ok || strings.ContainsAny(encoded, "\r\n") {
		return Secret{}, ErrSecretForm
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return Secret{}, ErrSecretForm // err, which may quote the input, is dropped on purpose
	}
	if len(key) < MinSecretBytes {
		return Secret{}, ErrSecretLength
	}
	return Secret{material: func() []byte { return key }}, nil
}

// Fingerprint returns the first 8 hex digits of the key's SHA-256: enough to see that two sides hold the same
// secret, useless for finding it.
func (s Secret) Fingerprint() string {
	sum := sha256.Sum256(s.key())
	return hex.EncodeToString(sum[:4])
}

// Fingerprints returns the fingerprints of several secrets in their order, for a start-up log line.
func Fingerprints(secrets []Secret) []string {
	prints := make([]string, 0, len(secrets))
	for s := range slices.Values(secrets) {
		prints = append(prints, s.Fingerprint())
	}
	return prints
}

// String returns a placeholder.
func (s Secret) String() string { return redacted }

// GoString returns a placeholder.
func (s Secret) GoString() string { return redacted }

// Format writes a placeholder for every verb, also for %x and %d, which would otherwise reach the bytes.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue returns the placeholder with the fingerprint.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted + " " + s.Fingerprint()) }

// MarshalJSON writes a placeholder.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText writes a placeholder.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
