package extractor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

const (
	// sendTries bounds how often a job is handed on because the process that took it was dead already or still spoke
	// of an earlier job.
	sendTries = 3
	// pastJobs is how many ended jobs of a process are remembered, to know their leftovers by.
	pastJobs = 32
	// backoffSteps is where doubling stops mattering.
	backoffSteps = 16
)

// errUnsent says that the process had died before it could read the job: no attempt was made.
var errUnsent = errors.New("the extractor was gone before it got the job")

// errLeftover says that the process still spoke of a job that it had ended: the fault is that job's, not this one's.
var errLeftover = errors.New("the extractor sent more about a job that had ended")

// supervisor owns the process of one slot.
type supervisor struct {
	pool     *Pool
	tmp      string
	log      *slog.Logger
	failures int      // bad ends in a row; reset by a job that ended in order
	broken   bool     // the last start failed
	past     []string // the jobs that the process has ended, the newest last
}

func newSupervisor(p *Pool, slot int) *supervisor {
	return &supervisor{
		pool: p, tmp: tempDir(p.cfg.TempDir, slot),
		log: p.cfg.Logger.With(slog.Int("extractor", slot)),
	}
}

// run keeps one process alive until ctx ends.
func (s *supervisor) run(ctx context.Context) {
	for ctx.Err() == nil {
		reason := s.once(ctx)
		if reason == "" {
			return
		}
		s.pool.cfg.OnRestart(reason)
		if reason != ReasonCancelled && reason != ReasonTimeout {
			s.failures++
		}
		s.pause(ctx)
	}
}

// once starts a process and serves jobs until it is gone. It returns why, or "" when ctx has ended.
func (s *supervisor) once(ctx context.Context) Reason {
	p, hello, err := s.start(ctx)
	if ctx.Err() != nil {
		if p != nil {
			p.close(s.pool.cfg.KillDelay)
		}
		return ""
	}
	if err != nil {
		if p != nil {
			p.terminate(s.pool.cfg.KillDelay)
			err = withLastWords(err, p)
		}
		s.log.Error("extractor did not start", slog.String("error", err.Error()))
		s.pool.startFailed(s.broken)
		s.broken = true
		return ReasonHello
	}
	s.pool.said(hello, s.broken)
	s.broken, s.past = false, nil
	reason := s.serve(ctx, p, hello)
	if reason == "" {
		p.close(s.pool.cfg.KillDelay)
		return ""
	}
	p.terminate(s.pool.cfg.KillDelay)
	level := slog.LevelWarn
	if reason == ReasonCancelled { // the work was called off, and whoever did that has said why
		level = slog.LevelInfo
	}
	s.log.LogAttrs(context.Background(), level, "extractor ended", slog.String("reason", string(reason)), slog.String("status", p.ended()))
	return reason
}

// start starts a process and waits for its hello. The process is returned with an error if it runs all the same.
func (s *supervisor) start(ctx context.Context) (*process, protocol.ExtractorHello, error) {
	var none protocol.ExtractorHello
	if err := emptyTemp(s.tmp); err != nil {
		return nil, none, err
	}
	p, err := startProcess(s.pool.cfg, s.tmp, s.log)
	if err != nil {
		return nil, none, err
	}
	timeout := time.NewTimer(s.pool.cfg.HelloTimeout)
	defer timeout.Stop()
	select {
	case m, ok := <-p.msgs:
		if !ok {
			return p, none, errors.New("it ended before it said hello")
		}
		return p, helloOf(m), checkHello(m)
	case <-timeout.C:
		return p, none, fmt.Errorf("no hello within %s", s.pool.cfg.HelloTimeout)
	case <-ctx.Done():
		return p, none, context.Cause(ctx)
	}
}

// serve gives jobs to p until it is gone or has to go.
func (s *supervisor) serve(ctx context.Context, p *process, hello protocol.ExtractorHello) Reason {
	for {
		select {
		case m, ok := <-p.msgs:
			if !ok {
				return ReasonCrash
			}
			if m.progress == nil { // an idle process has nothing else to say
				return ReasonGarbage
			}
		case req := <-s.pool.jobs:
			reason, got := s.job(ctx, p, req, hello.Model)
			if reason != "" {
				p.terminate(s.pool.cfg.KillDelay)
				got.err = s.describe(got.err, p)
			}
			req.reply <- got
			if reason != "" {
				return reason
			}
			s.failures = 0
			s.past = append(s.past[max(0, len(s.past)-pastJobs+1):], req.job.Job)
			if err := emptyTemp(s.tmp); err != nil {
				s.log.Error("extractor folder", slog.String("error", err.Error()))
			}
		case <-ctx.Done():
			return ""
		}
	}
}

// job runs one job on p. A reason says that p has to be replaced.
func (s *supervisor) job(ctx context.Context, p *process, req *request, model protocol.Model) (Reason, reply) {
	line, err := json.Marshal(req.job)
	if err != nil {
		return "", reply{err: protocol.AsFault(fmt.Errorf("encode job: %w", err))}
	}
	if reason := s.look(p); reason != "" {
		return reason, reply{err: errUnsent}
	}
	if err := p.send(req.ctx, line); err != nil {
		if req.ctx.Err() == nil {
			return ReasonCrash, reply{err: errUnsent}
		}
		return s.reasonOf(req.ctx), reply{err: s.pool.endedBy(req.ctx)}
	}
	for {
		select {
		case m, ok := <-p.msgs:
			if !ok {
				return ReasonCrash, reply{err: errCrashed}
			}
			if reason, got, done := s.handle(m, req, model); done {
				return reason, got
			}
		case <-req.ctx.Done():
			return s.reasonOf(req.ctx), reply{err: s.pool.endedBy(req.ctx)}
		case <-ctx.Done():
			return ReasonCancelled, reply{err: stoppedFault()}
		}
	}
}

// look sees whether p has ended or said what an idle process must not say, before a job is given to it.
func (s *supervisor) look(p *process) Reason {
	select {
	case m, ok := <-p.msgs:
		switch {
		case !ok:
			return ReasonCrash
		case m.progress == nil:
			return ReasonGarbage
		}
	default:
	}
	return ""
}

// handle takes one message of a running job; done says that it was the last.
func (s *supervisor) handle(m message, req *request, model protocol.Model) (reason Reason, got reply, done bool) {
	switch {
	case m.progress != nil:
		if req.progress != nil && m.progress.Job == req.job.Job {
			req.progress(min(max(m.progress.Done, 0), 1))
		}
		return "", reply{}, false
	case m.fault != nil && m.fault.Job == req.job.Job:
		fault, err := faultOf(m.fault)
		if err != nil {
			return ReasonGarbage, reply{err: garbageFault(err)}, true
		}
		return "", reply{err: fault}, true
	case m.result != nil && m.result.Job == req.job.Job:
		result, err := checkResult(m.result, req.job, model)
		if err != nil && s.ended(m) { // an earlier attempt at the same job
			return ReasonGarbage, reply{err: errLeftover}, true
		}
		if err != nil {
			return ReasonGarbage, reply{err: garbageFault(err)}, true
		}
		return "", reply{result: result}, true
	case m.garbage != nil:
		return ReasonGarbage, reply{err: garbageFault(m.garbage)}, true
	case s.ended(m):
		return ReasonGarbage, reply{err: errLeftover}, true
	default:
		return ReasonGarbage, reply{err: garbageFault(errors.New("a message for another job"))}, true
	}
}

// ended tells whether m is about a job that the process has ended.
func (s *supervisor) ended(m message) bool {
	return m.result != nil && slices.Contains(s.past, m.result.Job) || m.fault != nil && slices.Contains(s.past, m.fault.Job)
}

// errCrashed stands for the end of a process whose status is not known yet.
var errCrashed = errors.New("the extractor process ended")

// describe completes a crash with the status of the process, which is known once it is reaped.
func (s *supervisor) describe(err error, p *process) error {
	if !errors.Is(err, errCrashed) {
		return err
	}
	text := fmt.Sprintf("the extractor process ended before its result (%s)", p.ended())
	return protocol.NewRetryableFault(protocol.CodeExtractorCrashed, text).WithCause(err)
}

func garbageFault(err error) *protocol.Fault {
	return protocol.NewRetryableFault(protocol.CodeExtractorCrashed, "the extractor sent "+err.Error()).WithCause(err)
}

func (s *supervisor) reasonOf(ctx context.Context) Reason {
	if s.pool.cfg.TimeoutCause != nil && errors.Is(context.Cause(ctx), s.pool.cfg.TimeoutCause) {
		return ReasonTimeout
	}
	return ReasonCancelled
}

// pause waits before the next start: not at all after one bad end, then doubling up to the maximum, with jitter.
func (s *supervisor) pause(ctx context.Context) {
	if s.failures < 2 && !s.broken {
		return
	}
	d := min(s.pool.cfg.BackoffMin<<min(s.failures, backoffSteps), s.pool.cfg.BackoffMax)
	t := time.NewTimer(d/2 + rand.N(d/2+1))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// withLastWords adds what the process complained about last: it is the reason more often than not.
func withLastWords(err error, p *process) error {
	if last := p.lastWords(); last != "" {
		return fmt.Errorf("%w; it said last: %s", err, last)
	}
	return err
}

func helloOf(m message) protocol.ExtractorHello {
	if m.hello == nil {
		return protocol.ExtractorHello{}
	}
	return *m.hello
}

func checkHello(m message) error {
	switch {
	case m.garbage != nil:
		return fmt.Errorf("its first line is %w", m.garbage)
	case m.hello == nil:
		return errors.New("its first message is no hello")
	case m.hello.Protocol != protocol.ExtractorProtocol:
		return fmt.Errorf("it speaks protocol %d, not %d", m.hello.Protocol, protocol.ExtractorProtocol)
	default:
		return nil
	}
}
