package ecs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	callTimeout = 5 * time.Second
	callTries   = 2
	// cooling is how long an idle task stays protected, so that back-to-back jobs cost no calls.
	cooling = time.Minute
	// blockedPause is the time between two tries while a deployment blocks protection.
	blockedPause = 30 * time.Second
	// tick is how often the keeper looks whether to renew or to give up protection.
	tick = time.Second
)

// ErrBlocked says that the service has more protected tasks than it wants: this task is surplus and takes no work.
var ErrBlocked = errors.New("ECS refuses protection: this task is surplus")

// ErrUnprotected says that protection is required and could not be had.
var ErrUnprotected = errors.New("ECS scale-in protection is required and could not be had")

// Protector keeps the task protected from scale-in while it is busy.
//
//	idle --Hold: PUT true--> protected --idle for a minute: PUT false--> idle
//	  ^ refused: surplus, or required            | half of the expiry: PUT true
//
// The agent says no with status 200 and a failure in the body; only ProtectionEnabled counts.
type Protector struct {
	url      string
	required bool
	expires  time.Duration
	busy     func() bool
	log      *slog.Logger

	shown     atomic.Bool // protected, for the gauge; written under mu
	mu        sync.Mutex  // held over a call, so that protect and unprotect can't cross
	until     time.Time   // protected until then; zero if not
	renewAt   time.Time
	lastBusy  time.Time
	blocked   time.Time // no call before then
	lastFault string
}

// NewProtector returns a Protector that asks the agent at base (the value of ECS_AGENT_URI). jobTimeout bounds one
// job: protection is asked for longer than that. busy tells whether anything runs.
func NewProtector(base string, required bool, jobTimeout time.Duration, busy func() bool, log *slog.Logger) *Protector {
	return &Protector{
		url: strings.TrimRight(base, "/") + "/task-protection/v1/state", required: required,
		expires: expiry(jobTimeout), busy: busy, log: log,
	}
}

// expiry is longer than the longest job, since a renewal may be refused: at least 15 min, at most two days.
func expiry(jobTimeout time.Duration) time.Duration {
	minutes := max(15, int((jobTimeout+time.Minute-1)/time.Minute)+10)
	return time.Duration(min(minutes, 2880)) * time.Minute
}

// Hold makes sure that the task is protected before a job is taken. It returns ErrBlocked or ErrUnprotected when no
// job may be taken now; any other failure is logged, and the work goes on unprotected.
func (p *Protector) Hold(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.lastBusy = now
	if now.Before(p.until) {
		return nil
	}
	if now.Before(p.blocked) {
		return ErrBlocked
	}
	err := p.put(ctx, true)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrBlocked):
		p.blocked = now.Add(blockedPause)
		return err
	case p.required:
		return fmt.Errorf("%w: %w", ErrUnprotected, err)
	default:
		return nil
	}
}

// Protected tells whether ECS has agreed.
func (p *Protector) Protected() bool { return p.shown.Load() }

// Run renews the protection while the task is busy and gives it up when it has been idle for a minute, until ctx
// ends. Then it is left alone: the task is going away.
func (p *Protector) Run(ctx context.Context) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			p.look(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *Protector) look(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.busy() {
		p.lastBusy = now
	}
	if !p.until.IsZero() && now.After(p.until) {
		p.until = time.Time{}
		p.shown.Store(false)
	}
	switch {
	case p.until.IsZero():
	case p.busy() && now.After(p.renewAt):
		if p.put(ctx, true) != nil { // a refusal is no failure: the first expiry outlasts a job
			p.renewAt = now.Add(blockedPause)
		}
	case !p.busy() && now.Sub(p.lastBusy) >= cooling:
		if p.put(ctx, false) != nil {
			p.lastBusy = now // try again in a minute
		}
	}
}

// put makes the call, at most twice; the caller holds mu.
func (p *Protector) put(ctx context.Context, enable bool) error {
	var err error
	for range callTries {
		if err = p.call(ctx, enable); err == nil || errors.Is(err, ErrBlocked) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		if text := err.Error(); text != p.lastFault {
			p.log.Warn("ECS task protection", slog.Bool("enable", enable), slog.String("error", text))
			p.lastFault = text
		}
		return err
	}
	p.lastFault = ""
	if !enable {
		p.until = time.Time{}
		p.shown.Store(false)
		return nil
	}
	now := time.Now()
	p.shown.Store(true)
	p.until, p.renewAt = now.Add(p.expires), now.Add(p.expires/2)
	return nil
}

// answer is the agent's; a failure comes with status 200.
type answer struct {
	Protection *struct {
		ProtectionEnabled bool
	} `json:"protection"`
	Failure *struct{ Reason string } `json:"failure"`
	Error   *struct{ Code string }   `json:"error"`
}

func (p *Protector) call(ctx context.Context, enable bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	wish := map[string]any{"ProtectionEnabled": enable} // unknown fields are refused
	if enable {
		wish["ExpiresInMinutes"] = int(p.expires / time.Minute)
	}
	body, err := json.Marshal(wish)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, p.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := localClient().Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var a answer
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&a); err != nil {
		return fmt.Errorf("status %d, no JSON", res.StatusCode)
	}
	return a.verdict(res.StatusCode, enable)
}

func (a answer) verdict(status int, enable bool) error {
	switch {
	case a.Failure != nil && a.Failure.Reason == "DEPLOYMENT_BLOCKED":
		return ErrBlocked
	case a.Failure != nil:
		return fmt.Errorf("refused: %s", a.Failure.Reason)
	case a.Error != nil:
		return fmt.Errorf("status %d: %s", status, a.Error.Code)
	case a.Protection == nil || a.Protection.ProtectionEnabled != enable:
		return fmt.Errorf("status %d says nothing of protection", status)
	default:
		return nil
	}
}
