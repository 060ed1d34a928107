package claimcheck

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"time"
)

const (
	maxAnswerBytes = 1 << 20
	maxErrorBytes  = 16 << 10
)

// Client does all of this package's work. It is safe for concurrent use; Close ends its idle connections.
type Client struct {
	config  Config
	limits  Limits
	control *url.URL
	// storage and callback decide about URLs, open and checked carry the requests: checked looks at addresses.
	storage, callback guard
	open, checked     *http.Transport
	log               *slog.Logger
	observer          Observer
}

// New returns a Client. It connects to nothing.
func New(config Config) (*Client, error) { return newClient(config, nil) }

func newClient(config Config, dial dialFunc) (*Client, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	control, err := parseControlURL(config.ControlURL)
	if err != nil {
		return nil, err
	}
	if len(config.CallbackHosts) == 0 {
		config.CallbackHosts = []string{hostEntry(control)}
	}
	config.MaxInputBytes = cmp.Or(config.MaxInputBytes, DefaultMaxInputBytes)
	config.UserAgent = cmp.Or(config.UserAgent, "posefleet")
	c := &Client{config: config, limits: config.Limits.withDefaults(), control: control, log: config.Logger, observer: config.Observer}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.observer == nil {
		c.observer = NopObserver{}
	}
	if c.storage, err = c.newGuard("storage", config.StorageHosts); err != nil {
		return nil, err
	}
	if c.callback, err = c.newGuard("callback", config.CallbackHosts); err != nil {
		return nil, err
	}
	c.open = newTransport(c.limits.ConnectTimeout, false, dial)
	c.checked = newTransport(c.limits.ConnectTimeout, true, dial)
	return c, nil
}

// hostEntry is the allow-list entry for u's host with any port.
func hostEntry(u *url.URL) string {
	if name := u.Hostname(); name != "" {
		return name
	}
	return u.Host
}

func (c *Client) newGuard(purpose string, entries []string) (guard, error) {
	hosts, err := parseHosts(entries)
	return guard{purpose: purpose, hosts: hosts, control: c.control, allowInsecure: c.config.AllowInsecure}, err
}

// Close ends idle connections. Requests that are under way go on.
func (c *Client) Close() {
	c.open.CloseIdleConnections()
	c.checked.CloseIdleConnections()
}

// CheckStorageURL returns a permanent protocol.CodeHostNotAllowed fault if clips and artifacts may not be fetched
// from or put to text. What its name resolves to is checked later, when it is dialled.
func (c *Client) CheckStorageURL(text string) error {
	_, err := c.storage.check(text)
	return err
}

// CheckCallbackURL is CheckStorageURL for callbacks.
func (c *Client) CheckCallbackURL(text string) error {
	_, err := c.callback.check(text)
	return err
}

// send does one round trip, below http.Client: no redirects, no cookies, no authorization out of a URL, and no
// errors that quote the URL.
func (c *Client) send(request *http.Request, trusted bool) (*http.Response, error) {
	request.Header.Set("User-Agent", c.config.UserAgent)
	if trusted {
		return c.open.RoundTrip(request)
	}
	return c.checked.RoundTrip(request)
}

// newRequest builds a request to a URL that was checked before.
func newRequest(ctx context.Context, method string, u *url.URL, body io.Reader) *http.Request {
	request := (&http.Request{Method: method, URL: u, Header: http.Header{}, Host: u.Host, ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	if body != nil {
		request.Body = io.NopCloser(body)
	}
	return request
}

// sign adds the headers of a signed JSON message, after those that the config adds.
func (c *Client) sign(request *http.Request, id string, body []byte) {
	if c.config.Header != nil {
		c.config.Header(request.Context(), request.Header)
	}
	maps.Copy(request.Header, c.config.Signer.Header(id, time.Now(), body))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.ContentLength = int64(len(body))
}

var errTooLong = errors.New("the body is too long")

// readAll reads a body of at most limit bytes.
func readAll(body io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, errTooLong
	}
	return data, err
}

// discard reads the rest of a small body, so that the connection can be used again, and closes it.
func discard(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, maxErrorBytes)
	_ = body.Close()
}
