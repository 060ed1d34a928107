package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
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
		return fmt.Errorf("no answer: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 512))
		return fmt.Errorf("status %d: %s", res.StatusCode, strings.TrimSpace(string(body)))
	}
	return nil
}
