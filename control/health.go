package control

import (
	"context"
	"net/http"
	"runtime"
	"time"

	"github.com/posefleet/posefleet/internal/version"
)

const (
	// healthTimeout bounds the look at the database that decides about a restart, readyTimeout the looks that decide about traffic.
	healthTimeout = 3 * time.Second
	readyTimeout  = time.Second
)

// healthView says that all is well; otherwise there is a problem document.
type healthView struct {
	Status string `json:"status" enum:"ok"`
}

// versionView names the build.
type versionView struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
}

// healthz is 200 while the process and its database answer. Redis and storage may be away for a while: that is no
// reason to restart.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
	defer cancel()
	if err := s.store.Ping(ctx); err != nil {
		return unavailable("The database does not answer.", err)
	}

	return answer(w, http.StatusOK, healthView{Status: "ok"})
}

// readyz is 200 while what is submitted now reaches a worker: the database and Redis answer, and the process is not about to end. Without Redis
// requests are served all the same, and what has to be enqueued waits; who may wait should ask healthz.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	select {
	case <-s.stopping:
		return unavailable("The control plane is stopping.", nil)
	default:
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	redis := make(chan error, 1)
	go func() { redis <- s.queue.Ping(ctx) }() // ends with ctx
	if err := s.store.Ping(ctx); err != nil {
		return unavailable("The database does not answer.", err)
	}
	select {
	case err := <-redis:
		if err != nil {
			return unavailable("Redis does not answer.", nil) // the census says why
		}
	case <-ctx.Done():
		return unavailable("Redis does not answer.", nil)
	}

	return answer(w, http.StatusOK, healthView{Status: "ok"})
}

// showVersion is GET /version.
func (s *Server) showVersion(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, http.StatusOK, versionView{Version: version.String(), Revision: version.Revision(), Go: runtime.Version()})
}
