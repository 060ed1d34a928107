package claimcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/posefleet/posefleet/protocol/webhook"
)

// Config says whom the client talks to and how patiently. Zero values mean the defaults named with each field.
type Config struct {
	// ControlURL is the base URL of the control plane, http or https, without user, query or fragment. It is the
	// operator's word: neither its scheme nor its address is checked, and what lies at the same origin is trusted
	// alike, provided that its host is on the allow-list in question.
	ControlURL string
	// Signer signs every request to the control plane and every result.
	Signer *webhook.Signer
	// WorkerID names this worker in log lines; redemptions carry it in their own field.
	WorkerID string
	// StorageHosts are the hosts of clip and artifact URLs: "host" (any port), "host:port" or "*.suffix" (any name
	// below suffix, any port).
	StorageHosts []string
	// CallbackHosts are the hosts of callbacks, in the same forms. Default: the host of ControlURL.
	CallbackHosts []string
	// AllowInsecure permits http and internal addresses, for tests and the demo.
	AllowInsecure bool
	// MaxInputBytes bounds the clips of an analysis. Default 2 GiB.
	MaxInputBytes int64
	// Limits are the bounds in time and number.
	Limits Limits
	// UserAgent of all requests. Default "posefleet".
	UserAgent string
	// Logger; default none.
	Logger *slog.Logger
	// Header may add headers to what goes to the control plane and the callback, such as that of a trace; storage never sees them.
	// Default none.
	Header func(ctx context.Context, h http.Header)
	// Observer counts what happens; default none.
	Observer Observer
}

// Limits are the bounds in time and number. Zero means the default.
type Limits struct {
	// ConnectTimeout bounds resolving, connecting and, apart from it, the TLS handshake. Default 5 s.
	ConnectTimeout time.Duration
	// RequestTimeout bounds one try of a request to the control plane. Default 5 s.
	RequestTimeout time.Duration
	// RequestTries is how often such a request is tried. Default 4.
	RequestTries int
	// IdleTimeout ends a transfer that stands still: less than MinRate over this time. Default 30 s.
	IdleTimeout time.Duration
	// MinRate is the slowest transfer that counts as moving, in bytes a second. Default 1024.
	MinRate int64
	// Resumes is how often a broken transfer goes on. Default 8.
	Resumes int
	// Refreshes is how often one transfer asks for a fresh URL. Default 3.
	Refreshes int
	// ResultTimeout bounds one try of a result. Default 20 s.
	ResultTimeout time.Duration
	// ResultTries and ResultBudget bound all tries of a result. Defaults 12 and 5 min.
	ResultTries  int
	ResultBudget time.Duration
	// BackoffBase and BackoffCap shape the full jitter between tries. Defaults 500 ms and 30 s.
	BackoffBase, BackoffCap time.Duration
}

// DefaultMaxInputBytes is the default of Config.MaxInputBytes.
const DefaultMaxInputBytes = 2 << 30

func (l Limits) withDefaults() Limits {
	return Limits{
		ConnectTimeout: cmp.Or(l.ConnectTimeout, 5*time.Second),
		RequestTimeout: cmp.Or(l.RequestTimeout, 5*time.Second),
		RequestTries:   cmp.Or(l.RequestTries, 4),
		IdleTimeout:    cmp.Or(l.IdleTimeout, 30*time.Second),
		MinRate:        cmp.Or(l.MinRate, 1024),
		Resumes:        cmp.Or(l.Resumes, 8),
		Refreshes:      cmp.Or(l.Refreshes, 3),
		ResultTimeout:  cmp.Or(l.ResultTimeout, 20*time.Second),
		ResultTries:    cmp.Or(l.ResultTries, 12),
		ResultBudget:   cmp.Or(l.ResultBudget, 5*time.Minute),
		BackoffBase:    cmp.Or(l.BackoffBase, 500*time.Millisecond),
		BackoffCap:     cmp.Or(l.BackoffCap, 30*time.Second),
	}
}

// Validate joins all faults of c.
func (c Config) Validate() error {
	var faults []error
	if _, err := parseControlURL(c.ControlURL); err != nil {
		faults = append(faults, err)
	}
	if c.Signer == nil {
		faults = append(faults, errors.New("a signer is needed"))
	}
	if len(c.StorageHosts) == 0 {
		faults = append(faults, errors.New("at least one storage host is needed"))
	}
	if _, err := parseHosts(c.StorageHosts); err != nil {
		faults = append(faults, fmt.Errorf("storage hosts: %w", err))
	}
	if _, err := parseHosts(c.CallbackHosts); err != nil {
		faults = append(faults, fmt.Errorf("callback hosts: %w", err))
	}
	if c.MaxInputBytes < 0 {
		faults = append(faults, errors.New("the input limit is negative"))
	}
	return errors.Join(append(faults, c.Limits.validate())...)
}

func (l Limits) validate() error {
	times := []time.Duration{l.ConnectTimeout, l.RequestTimeout, l.IdleTimeout, l.ResultTimeout, l.ResultBudget, l.BackoffBase, l.BackoffCap}
	for _, d := range times {
		if d < 0 {
			return errors.New("a timeout is negative")
		}
	}
	if l.RequestTries < 0 || l.Resumes < 0 || l.Refreshes < 0 || l.ResultTries < 0 || l.MinRate < 0 {
		return errors.New("a limit is negative")
	}
	return nil
}

// parseControlURL does not repeat the URL in its errors: it may hold a password.
func parseControlURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil, errors.New("a control URL is needed")
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return nil, errors.New("the control URL is not an absolute http or https URL")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("the control URL has a user, a query or a fragment")
	}
	if u.Path == "" {
		u.Path = "/" // JoinPath would make a relative path of none
	}
	return u, nil
}
