package claimcheck

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// NewWithDial is New with connections from dial.
func NewWithDial(config Config, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*Client, error) {
	return newClient(config, dial)
}

// RetryAfter is the reader of the header.
func RetryAfter(h http.Header, now time.Time, limit time.Duration) time.Duration {
	return retryAfter(h, now, limit)
}

// ContentRange is the reader of the header.
func ContentRange(text string) (first, last, total int64, ok bool) {
	r, ok := parseContentRange(text)
	return r.first, r.last, r.total, ok
}

// StorageError is the reader of an error body, and what it makes of a status.
func StorageError(status int, body []byte) (code string, v int) {
	e := parseStorageError(body)
	return e.knownCode(), int(judge(status, e))
}

// HostAllowed tells whether an allow-list of entries allows the URL's host.
func HostAllowed(entries []string, text string) (bool, error) {
	list, err := parseHosts(entries)
	if err != nil {
		return false, err
	}
	u, err := url.Parse(text)
	if err != nil {
		return false, err
	}
	return list.allows(u), nil
}

// Internal tells whether an address is one that the guard refuses.
func Internal(text string) bool { return isInternal(netip.MustParseAddr(text)) }

// Backoff is one draw of the full jitter.
func Backoff(n int, base, limit time.Duration) time.Duration { return backoff(n, base, limit) }
