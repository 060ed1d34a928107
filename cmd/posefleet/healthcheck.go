package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	neturl "net/url"
	"strings"
	"time"
)

// healthcheckCmd is "posefleet healthcheck".
type healthcheckCmd struct {
	AdminListen string        `placeholder:"VALUE" help:"The worker's admin address (default :9090) [POSEFLEET_ADMIN_LISTEN]."`
	Path        string        `default:"/healthz" help:"What to ask; /readyz asks whether work can be taken."`
	Timeout     time.Duration `default:"5s" help:"How long to wait for the answer."`
}

// Run asks the worker in the same container. It needs no shell and no curl.
func (c *healthcheckCmd) Run(h *host) error {
	if c.Timeout <= 0 {
		return &usageError{err: fmt.Errorf("--timeout must be positive, not %s", c.Timeout)}
	}
	name, addr := "--admin-listen", c.AdminListen
	if addr == "" {
		name = "POSEFLEET_ADMIN_LISTEN"
		addr = cmp.Or(h.environ[name], ":9090")
	}
	hostname, port, err := net.SplitHostPort(addr)
	if err != nil {
		return &usageError{err: fmt.Errorf("%s is no address: %q", name, addr)}
	}
	if ip := net.ParseIP(hostname); hostname == "" || (ip != nil && ip.IsUnspecified()) {
		hostname = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(h.ctx, c.Timeout)
	defer cancel()
	url := "http://" + net.JoinHostPort(hostname, port) + "/" + strings.TrimLeft(c.Path, "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return &usageError{err: err}
	}
	client := &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*neturl.Error](err); ok {
			err = wrapped.Err
		}
		return fmt.Errorf("no answer at %s: %w; start a worker, or set %s to where its admin port is", url, err, name)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 512))
		return fmt.Errorf("status %d: %s", res.StatusCode, strings.TrimSpace(string(body)))
	}
	return nil
}
