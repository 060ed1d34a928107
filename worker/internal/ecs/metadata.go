// Package ecs speaks to what Amazon ECS offers inside a task: the metadata endpoint and the agent's endpoint for
// scale-in protection. Both are plain HTTP on link-local addresses; neither is needed for the work.
package ecs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	metadataTimeout = 2 * time.Second
	metadataTries   = 3
	maxAnswer       = 1 << 20
)

// Task is what the metadata endpoint says of the task.
type Task struct {
	TaskARN  string
	Revision string
	// Limits of the whole task: CPU in vCPU, Memory in MiB; 0 where there is none.
	Limits struct {
		CPU    float64
		Memory int64
	}
	// ClockDrift holds the clock's error bound in ms.
	ClockDrift struct {
		ErrorBound float64 `json:"ClockErrorBound"`
	}
}

// ID returns the last part of the task's ARN.
func (t *Task) ID() string { return t.TaskARN[strings.LastIndexByte(t.TaskARN, '/')+1:] }

// ReadTask asks the metadata endpoint (the value of ECS_CONTAINER_METADATA_URI_V4), three times within 2 s each.
func ReadTask(ctx context.Context, base string) (*Task, error) {
	var errs []error
	for range metadataTries {
		t, err := readTask(ctx, base)
		if err == nil {
			return t, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("read ECS metadata: %w", errors.Join(errs...))
}

func readTask(ctx context.Context, base string) (*Task, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(base, "/")+"/task", nil)
	if err != nil {
		return nil, err
	}
	res, err := localClient().Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", res.StatusCode)
	}
	t := &Task{}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(t); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return t, nil
}

// localClient talks to the task's own endpoints: never through a proxy, never redirected, no idle connections.
func localClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
