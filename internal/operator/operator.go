// Package operator is a client of the control plane's operator-facing API: create an analysis, upload its clips, submit it, look at it,
// read its pose document.
package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// answerLimit bounds what is read of an answer that is no media.
const answerLimit = 8 << 20

// Dispatch says who adds the job of a submitted analysis to the queue.
type Dispatch string

// Ways of dispatch.
const (
	// DispatchQueue: the control plane does, by its outbox.
	DispatchQueue Dispatch = "queue"
	// DispatchNone: the caller does, or pushes it through a worker's HTTP door.
	DispatchNone Dispatch = "none"
)

// Clip describes a clip to be uploaded. Size is in bytes, SHA256 the sum of the file in hex.
type Clip struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	Size        int64  `json:"size"`
	SHA256      string `json:"sha256"`
	ContentType string `json:"contentType"`
}

// Upload is where and how to put one clip.
type Upload struct {
	Clip    string            `json:"clip"`
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
}

// Created is the answer to Create.
type Created struct {
	AnalysisID string   `json:"analysisId"`
	Uploads    []Upload `json:"uploads"`
}

// Analysis is the state of an analysis as the control plane tells it.
type Analysis struct {
	ID        string           `json:"analysisId"`
	Status    string           `json:"status"`
	Epoch     int64            `json:"epoch"`
	Result    *protocol.Result `json:"result"`
	ErrorCode protocol.Code    `json:"errorCode"`
	Error     string           `json:"error"`
	Timeline  []Event          `json:"timeline"`
	Ledger    []Entry          `json:"ledger"`
	Runs      []Run            `json:"runs"`
}

// Event is a line of an analysis's timeline.
type Event struct {
	At     time.Time `json:"at"`
	Kind   string    `json:"kind"`
	Epoch  int64     `json:"epoch"`
	Detail string    `json:"detail"`
	Holder struct {
		WorkerID string `json:"workerId"`
	} `json:"holder"`
}

// Entry is an effect that was had, as the ledger knows it.
type Entry struct {
	Effect  string `json:"effect"`
	Outcome string `json:"outcome"`
}

// Run is the durable run of one round of an analysis.
type Run struct {
	Round     int64      `json:"round"`
	Stage     string     `json:"stage"`
	StartedAt time.Time  `json:"startedAt"`
	EndedAt   *time.Time `json:"endedAt"`
}

// Size is the fleet at one moment.
type Size struct {
	At                      time.Time `json:"at"`
	Desired, Running, Ready int
	Reason                  string `json:"reason"`
}

// Terminal tells whether the outcome is decided.
func (a *Analysis) Terminal() bool {
	return a.Status == "delivered" || a.Status == "failed" || a.Status == "cancelled"
}

// Reason is "code: sentence" of a failure, or empty.
func (a *Analysis) Reason() string {
	if a.ErrorCode == "" {
		return a.Error
	}

	return fmt.Sprintf("%s: %s", a.ErrorCode, a.Error)
}

// StatusError is an answer that is no success.
type StatusError struct {
	Operation string
	Status    int
	Problem   protocol.Problem
}

// Error names the operation, the status and what the problem document says.
func (e *StatusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%s: status %d %s %s", e.Operation, e.Status, e.Problem.Code, e.Problem.Detail))
}

// Client talks to one control plane. It is safe for concurrent use.
type Client struct {
	// Base is the control plane's base URL.
	Base string
	// Token is the API token, empty for a loopback listener.
	Token string
	// HTTP is the client to use; nil means http.DefaultClient.
	HTTP *http.Client
}

// Create registers an analysis; an empty id lets the control plane choose one. params may be nil.
func (c *Client) Create(ctx context.Context, id string, clips []Clip, params *protocol.Params) (Created, error) {
	request := struct {
		AnalysisID string           `json:"analysisId,omitempty"`
		Clips      []Clip           `json:"clips"`
		Params     *protocol.Params `json:"params,omitempty"`
	}{id, clips, params}

	var created Created

	return created, c.call(ctx, "create analysis", http.MethodPost, "/v1/analyses", request, &created)
}

// Put uploads a file by a presigned URL.
func (c *Client) Put(ctx context.Context, u Upload, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("upload clip: %w", err)
	}
	defer f.Close()

	stat, err := f.Stat()
	if err != nil {
		return fmt.Errorf("upload clip: %w", err)
	}

	request, err := http.NewRequestWithContext(ctx, u.Method, u.URL, f)
	if err != nil {
		return errors.New("upload clip: the control plane gave no usable URL")
	}

	request.ContentLength = stat.Size()
	if stat.Size() == 0 {
		request.Body = http.NoBody
	}

	for name, value := range u.Headers {
		request.Header.Set(name, value)
	}

	return c.do(request, "upload clip", nil)
}

// Preview asks where to put a rendition of a clip that browsers play in its place.
func (c *Client) Preview(ctx context.Context, id, clip string, file Clip) (Upload, error) {
	var u Upload

	path := "/v1/analyses/" + url.PathEscape(id) + "/clips/" + url.PathEscape(clip) + "/preview"

	return u, c.call(ctx, "upload preview", http.MethodPost, path, file, &u)
}

// Submit ends the upload and hands the analysis over to be worked on.
func (c *Client) Submit(ctx context.Context, id string, how Dispatch) error {
	return c.call(ctx, "submit analysis", http.MethodPost, "/v1/analyses/"+url.PathEscape(id)+"/submit", map[string]Dispatch{"dispatch": how}, nil)
}

// Cancel cancels an analysis.
func (c *Client) Cancel(ctx context.Context, id string) error {
	return c.call(ctx, "cancel analysis", http.MethodPost, "/v1/analyses/"+url.PathEscape(id)+"/cancel", struct{}{}, nil)
}

// Get reads the state of an analysis.
func (c *Client) Get(ctx context.Context, id string) (Analysis, error) {
	var a Analysis

	return a, c.call(ctx, "read analysis", http.MethodGet, "/v1/analyses/"+url.PathEscape(id), nil, &a)
}

// Await polls until the outcome of the analysis is decided or ctx ends.
func (c *Client) Await(ctx context.Context, id string, every time.Duration) (Analysis, error) {
	tick := time.NewTicker(every)
	defer tick.Stop()

	for {
		a, err := c.Get(ctx, id)
		if err != nil || a.Terminal() {
			return a, err
		}

		select {
		case <-tick.C:
		case <-ctx.Done():
			return a, fmt.Errorf("await analysis %s, %s so far: %w", id, a.Status, context.Cause(ctx))
		}
	}
}

// Fleet reads how many workers there are, and how many there have been in the last time.
func (c *Client) Fleet(ctx context.Context, last time.Duration) (now Size, history []Size, err error) {
	if err := c.call(ctx, "read fleet", http.MethodGet, "/v1/fleet", nil, &now); err != nil {
		return now, nil, err
	}

	var answer struct{ Fleet []Size }

	err = c.call(ctx, "read fleet", http.MethodGet, "/v1/fleet/history?since="+last.String(), nil, &answer)

	return now, answer.Fleet, err
}

// Healthy tells whether the control plane answers and reaches its database.
func (c *Client) Healthy(ctx context.Context) bool {
	return c.call(ctx, "health", http.MethodGet, "/healthz", nil, nil) == nil
}

// Pose reads the stored pose document into v.
func (c *Client) Pose(ctx context.Context, id string, v any) error {
	return c.call(ctx, "read pose document", http.MethodGet, "/v1/analyses/"+url.PathEscape(id)+"/pose", nil, v)
}

func (c *Client) call(ctx context.Context, operation, method, path string, body, answer any) error {
	var content io.Reader

	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s: %w", operation, err)
		}

		content = bytes.NewReader(text)
	}

	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.Base, "/")+path, content)
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}

	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}

	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}

	return c.do(request, operation, answer)
}

func (c *Client) do(request *http.Request, operation string, answer any) error {
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}

	response, err := client.Do(request)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // without the URL, whose query may be a signature
		}

		return fmt.Errorf("%s: %w", operation, err)
	}
	defer response.Body.Close()

	if response.StatusCode < 200 || response.StatusCode > 299 {
		fault := &StatusError{Operation: operation, Status: response.StatusCode}
		_ = json.NewDecoder(io.LimitReader(response.Body, answerLimit)).Decode(&fault.Problem) // a proxy may answer something else

		return fault
	}

	if answer == nil {
		return nil
	}

	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("%s: read the answer: %w", operation, err)
	}

	return nil
}
