package main

import (
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
	AdminListen string        `default:":9090" env:"POSEFLEET_ADMIN_LISTEN" help:"The worker's admin address."`
	Path        string        `default:"/healthz" help:"What to ask; /readyz asks whether work can be taken."`
	Timeout     time.Duration `default:"5s" help:"How long to wait for the answer."`
}

// Run asks the worker in the same container. It needs no shell and no curl.
func (c *healthcheckCmd) Run(h *host) error {
	hostname, port, err := net.SplitHostPort(c.AdminListen)
	if err != nil {
		return &usageError{err: fmt.Errorf("POSEFLEET_ADMIN_LISTEN is no address: %q", c.AdminListen)}
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
