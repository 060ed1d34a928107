package control

import (
	"context"
	"net/http"
	"time"

	"github.com/posefleet/posefleet/control/storage"
	"github.com/posefleet/posefleet/protocol"
)

// routes is the table of everything that is served.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.answering(s.healthz))

	mux.HandleFunc("POST /v1/claims/{id}", s.signed(maxRequestBytes, s.redeem))
	mux.HandleFunc("POST /v1/claims/{id}/renew", s.signed(maxRequestBytes, s.renew))
	mux.HandleFunc("POST /v1/claims/{id}/release", s.signed(maxRequestBytes, s.release))
	mux.HandleFunc("POST /v1/claims/{id}/artifact", s.signed(maxRequestBytes, s.artifact))
	mux.HandleFunc("POST /v1/results/{id}", s.signed(protocol.MaxResultBytes, s.result))

	s.operatorRoutes(mux)

	mux.HandleFunc("GET /{$}", s.operatorPage(roleRead, s.page.List))
	mux.HandleFunc("GET /fleet", s.operatorPage(roleRead, s.page.Fleet))
	mux.HandleFunc("GET /analyses/{id}", s.operatorPage(roleRead, s.page.Analysis))
	mux.HandleFunc("POST /analyses/{id}/actions", s.operatorPage(roleOperate, s.pageAction))
	mux.HandleFunc("POST /login", s.login)
	// Style and script hold no data, and the login needs them.
	mux.Handle("GET /static/", s.page.Static())
	mux.HandleFunc("GET /favicon.ico", s.page.Icon)

	if h := s.storage.Handler(); h != nil {
		mux.Handle(storage.HandlerPath, patient(h))
	}

	return mux
}

// operatorRoutes are those of the operator API.
func (s *Server) operatorRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/analyses", s.operator(s.create))
	mux.HandleFunc("GET /v1/analyses", s.reader(s.list))
	mux.HandleFunc("GET /v1/analyses/{id}", s.reader(s.get))
	mux.HandleFunc("POST /v1/analyses/{id}/submit", s.operator(s.submit))
	mux.HandleFunc("POST /v1/analyses/{id}/cancel", s.operator(s.cancel))
	mux.HandleFunc("POST /v1/analyses/{id}/retry", s.operator(s.retry))
	mux.HandleFunc("POST /v1/analyses/{id}/redeliver", s.operator(s.redeliver))
	mux.Handle("GET /v1/analyses/{id}/pose", patient(s.reader(s.pose)))
	mux.Handle("GET /v1/analyses/{id}/events", patient(s.reader(s.live)))
	mux.Handle("GET /v1/analyses/{id}/clips/{clip}", patient(s.reader(s.clip)))
	mux.Handle("GET /v1/analyses/{id}/clips/{clip}/preview", patient(s.reader(s.preview)))
	mux.HandleFunc("POST /v1/analyses/{id}/clips/{clip}/preview", s.operator(s.putPreview))
	mux.Handle("GET /v1/live", patient(s.reader(s.liveList)))

	mux.HandleFunc("GET /v1/accounts/{account}", s.reader(s.account))
	mux.HandleFunc("POST /v1/accounts/{account}/grants", s.operator(s.grantCredits))

	mux.HandleFunc("GET /v1/fleet", s.reader(s.fleet))
	mux.HandleFunc("GET /v1/fleet/history", s.reader(s.history))
	mux.Handle("GET /v1/fleet/live", patient(s.reader(s.liveFleet)))
}

// healthz is 200 while the process and its database answer. Redis and storage may be away for a while: that is no
// reason to restart.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	if err := s.store.Ping(ctx); err != nil {
		return unavailable("The database does not answer.", err)
	}

	return answer(w, http.StatusOK, map[string]string{"status": "ok"})
}
