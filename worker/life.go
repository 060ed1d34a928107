package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// life is one Run: the goroutines of the worker and the order of their ends.
//
//	drain   both doors take nothing more; lock, lease and protection are renewed as before
//	wait    until nothing runs, DrainTimeout, or GiveBack
//	give    every run is cancelled with ErrDraining: extractor killed, claim released, then the job put back
//	stop    queue, servers, extractors, scratch folder
type life struct {
	w         *Worker
	ctx       context.Context //nolint:containedctx // the life of Run itself
	hard      context.Context //nolint:containedctx // ends the queue's worker, and handlers that do not listen
	hardStop  context.CancelCauseFunc
	poolCtx   context.Context //nolint:containedctx // ends the extractors
	poolStop  context.CancelFunc
	queueDone chan struct{} // closed when the queue's worker has ended
	fault     chan error    // the first part that ended although nobody stopped it
	pool      chan struct{} // closed when the extractors are gone
	others    sync.WaitGroup
}

func newLife(ctx context.Context, w *Worker) *life {
	l := &life{w: w, ctx: ctx, queueDone: make(chan struct{}), fault: make(chan error, 4), pool: make(chan struct{})}
	apart := context.WithoutCancel(ctx)
	l.hard, l.hardStop = context.WithCancelCause(apart)
	l.poolCtx, l.poolStop = context.WithCancel(apart)
	return l
}

// start starts everything. Each goroutine ends in stop.
func (l *life) start(s servers) {
	w := l.w
	go func() { // ends with poolStop
		defer close(l.pool)
		_ = w.pool.Run(l.poolCtx) // has no faults of its own
	}()
	for _, server := range []*server{s.door, s.admin} {
		if server != nil {
			l.others.Go(func() { l.serve(server) })
		}
	}
	close(w.listening)
	l.others.Go(l.watchReady)
	l.others.Go(func() { w.tracer.Run(l.poolCtx) })
	if w.protect != nil {
		l.others.Go(func() { _ = w.protect.Run(l.poolCtx) })
	}
	if w.queue == nil {
		close(l.queueDone)
		return
	}
	l.others.Go(func() { w.followHints(l.poolCtx) })
	l.others.Go(func() { checkRedis(l.poolCtx, w.queueOptions(), w.log) })
	go func() { // ends after Drain or with hardStop
		err := w.queue.Run(l.hard)
		if _, draining := w.drainingSince(); !draining {
			l.fault <- fmt.Errorf("the queue's worker ended by itself: %w", err)
		}
		close(l.queueDone)
	}()
}

func (l *life) serve(s *server) {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		l.fault <- fmt.Errorf("serve: %w", err)
	}
}

// watchReady waits for the first hello.
func (l *life) watchReady() {
	for {
		usable, changed := l.w.pool.Usable()
		if usable {
			l.ready()
			return
		}
		select {
		case <-changed:
		case <-l.poolCtx.Done():
			return
		}
	}
}

func (l *life) ready() {
	w, took := l.w, time.Since(l.w.born)
	hello, _ := w.pool.Hello()
	w.metrics.startToReady.Set(took.Seconds())
	w.metrics.setBuild(BuildVersion(), hello.Model.Name)
	w.log.Info("worker is ready", slog.Int64("duration_ms", took.Milliseconds()), slog.String("extractor", hello.Name),
		slog.String("model", hello.Model.Name))
	close(w.readied)
}

// await waits for the reason to stop, lets running work end, and gives back the rest.
func (l *life) await() error {
	w := l.w
	var err error
	select {
	case <-w.drained:
	case err = <-l.fault:
		w.log.Error("worker fails", slog.String("error", err.Error()))
	case <-l.ctx.Done():
		w.GiveBack()
	}
	w.Drain()
	w.engine.runs.close()
	if w.queue != nil {
		w.queue.Drain()
	}
	idle := l.idle()
	w.log.Info("worker drains", slog.Int("running", w.slots.InUse()), slog.Int64("timeout_ms", w.cfg.DrainTimeout.Milliseconds()))
	timer := time.NewTimer(w.cfg.DrainTimeout)
	defer timer.Stop()
	select {
	case <-idle:
		return err
	case <-timer.C:
	case <-w.given:
	case <-l.ctx.Done():
	}
	l.giveBack(idle)
	return err
}

// idle returns a channel that is closed when neither door has anything running. Its goroutine ends with that; it is
// not waited for, since a run that does not listen to anybody must not keep the process from ending.
func (l *life) idle() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-l.queueDone             // the queue begins nothing more
		<-l.w.engine.runs.empty() // nor does the HTTP door, and what began has ended
		l.w.httpRuns.Wait()
	}()
	return done
}

// giveBack ends what still runs and waits for it, within bounds.
func (l *life) giveBack(idle <-chan struct{}) {
	w := l.w
	w.log.Info("worker gives back what still runs", slog.Int("running", w.slots.InUse()))
	w.engine.runs.cancelAll(ErrDraining)
	for _, step := range []func(){func() { l.hardStop(ErrDraining) }, func() {}} {
		timer := time.NewTimer(giveBackTimeout)
		select {
		case <-idle:
			timer.Stop()
			return
		case <-timer.C:
			w.log.Error("work does not end, stopping hard")
			step()
		}
	}
}

// stop ends the rest: servers, extractors. What is left of a run that did not listen ends with its extractor.
func (l *life) stop(s servers) {
	w := l.w
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), closeTimeout)
	defer cancel()
	if s.door != nil {
		shut(ctx, s.door)
	}
	l.hardStop(ErrDraining)
	l.poolStop()
	<-l.pool
	shut(ctx, s.admin)
	l.others.Wait()
	w.engine.client.Close()
	if w.demand != nil {
		_ = w.demand.Close() // nothing depends on it
	}
}

// shut ends a server, the friendly way while ctx lives.
func shut(ctx context.Context, s *server) {
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
}
