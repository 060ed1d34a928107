package control

import (
	"net/http"

	"github.com/posefleet/posefleet/control/storage"
)

// routes is the table of everything that is served; that of the operator API and of what workers send is in openapi_operations.go.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", s.reader(s.metrics.handler()))

	api := describe(mux, s.operations())
	mux.HandleFunc("GET /openapi.json", s.serveDocument("application/openapi+json", api.MarshalJSON))
	mux.HandleFunc("GET /openapi.yaml", s.serveDocument("application/openapi+yaml", api.YAML))

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
