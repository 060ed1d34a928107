package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"time"
)

const (
	// stuckGrace is how far a run may be over its timeout before the worker counts as stuck: longer than every
	// bounded step at a run's end takes.
	stuckGrace = 10 * time.Minute
	// drainGrace is the same for a drain.
	drainGrace = time.Minute
	// healthTimeout bounds a look at the state: a lock that is never given back makes the worker unhealthy.
	healthTimeout = 800 * time.Millisecond
)

// admin answers for the worker itself, on a port of its own.
type admin struct {
	w       *Worker
	version Version
}

func (a *admin) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, bounded(a.health)) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { say(w, bounded(a.ready)) })
	mux.Handle("GET /metrics", a.w.metrics.handler())
	mux.HandleFunc("GET /version", a.showVersion)
	return mux
}

// health returns nil while the process makes progress, also when it is busy, draining or without Redis: to restart it
// for any of these would cost work and mend nothing.
func (a *admin) health() error {
	limit := a.w.cfg.JobTimeout + stuckGrace
	for _, r := range a.w.engine.runs.all() {
		if age := time.Since(r.started); age > limit {
			return fmt.Errorf("a run has not ended after %s", age.Round(time.Second))
		}
	}
	if since, ok := a.w.drainingSince(); ok && time.Since(since) > a.w.cfg.DrainTimeout+drainGrace {
		return fmt.Errorf("the drain has not ended after %s", time.Since(since).Round(time.Second))
	}
	return nil
}

// ready returns nil if work can be taken now or as soon as a slot frees. It looks at the fetch loop itself: a
// connection that answers proves nothing about consumption.
func (a *admin) ready() error {
	switch a.w.state() {
	case stateStarting:
		return errors.New("starting")
	case stateDraining:
		return errors.New("draining")
	}
	if ok, _ := a.w.pool.Usable(); !ok {
		return errors.New("no extractor is ready")
	}
	if a.w.queue == nil {
		return nil
	}
	return a.w.watch.alive(a.w.queue.Status(), a.w.slots.Full(), time.Now())
}

func (a *admin) showVersion(w http.ResponseWriter, _ *http.Request) {
	hello, _ := a.w.pool.Hello()
	build := map[string]any{
		"version": a.version.Version, "go": runtime.Version(),
		"workerId": a.w.engine.workerID, "extractor": hello.Name, "model": hello.Model,
	}
	if a.version.Revision != "" {
		build["revision"] = a.version.Revision
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(build) // the client may be gone
}

// bounded runs check, and says so if it does not come back.
func bounded(check func() error) error {
	got := make(chan error, 1)
	go func() { got <- check() }() // ends with check
	t := time.NewTimer(healthTimeout)
	defer t.Stop()
	select {
	case err := <-got:
		return err
	case <-t.C:
		return errors.New("the worker's state can't be read")
	}
}

func say(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "ok")
}
