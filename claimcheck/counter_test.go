package claimcheck_test

import (
	"slices"
	"sync"

	"github.com/posefleet/posefleet/claimcheck"
)

// counter is an Observer that remembers.
type counter struct {
	claimcheck.NopObserver
	mu        sync.Mutex
	requests  []string
	callbacks []string
	resumes   []string
	bytes     int64
	clock     float64
}

func (c *counter) ClaimRequest(operation, result string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, operation+" "+result)
}

func (c *counter) CallbackTry(result string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.callbacks = append(c.callbacks, result)
}

func (c *counter) DownloadResumed(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resumes = append(c.resumes, reason)
}

func (c *counter) Downloaded(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += n
}

func (c *counter) ClockSkew(seconds float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock = seconds
}

func (c *counter) claims() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

func (c *counter) tries() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.callbacks)
}

func (c *counter) resumed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.resumes)
}

func (c *counter) downloaded() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

func (c *counter) skew() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock
}
