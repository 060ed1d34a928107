package control

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/posefleet/posefleet/control/page"
	"github.com/posefleet/posefleet/control/storage"
	"github.com/posefleet/posefleet/control/store"
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

	mux.HandleFunc("POST /v1/analyses", s.operator(s.create))
	mux.HandleFunc("GET /v1/analyses", s.operator(s.list))
	mux.HandleFunc("GET /v1/analyses/{id}", s.operator(s.get))
	mux.HandleFunc("POST /v1/analyses/{id}/submit", s.operator(s.submit))
	mux.HandleFunc("POST /v1/analyses/{id}/cancel", s.operator(s.cancel))
	mux.Handle("GET /v1/analyses/{id}/pose", patient(s.operator(s.pose)))
	mux.Handle("GET /v1/analyses/{id}/events", patient(s.operator(s.live)))
	mux.Handle("GET /v1/analyses/{id}/clips/{clip}", patient(s.operator(s.clip)))
	mux.Handle("GET /v1/analyses/{id}/clips/{clip}/preview", patient(s.operator(s.preview)))
	mux.HandleFunc("POST /v1/analyses/{id}/clips/{clip}/preview", s.operator(s.putPreview))

	mux.HandleFunc("GET /v1/accounts/{account}", s.operator(s.account))
	mux.HandleFunc("POST /v1/accounts/{account}/grants", s.operator(s.grantCredits))

	mux.HandleFunc("GET /{$}", s.operatorPage(http.HandlerFunc(s.page.List)))
	mux.HandleFunc("GET /analyses/{id}", s.operatorPage(http.HandlerFunc(s.page.Analysis)))
	mux.HandleFunc("POST /login", s.login)
	// Style and script hold no data, and the login needs them.
	mux.Handle("GET /static/", s.page.Static())
	mux.HandleFunc("GET /favicon.ico", s.page.Icon)

	if h := s.storage.Handler(); h != nil {
		mux.Handle(storage.HandlerPath, patient(h))
	}

	return mux
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

// pageSource lets the page read what it shows.
type pageSource struct{ s *Server }

// List reads a page of analyses.
func (p pageSource) List(ctx context.Context, cursor string) (page.Listing, error) {
	all, err := p.s.store.Analyses(ctx, store.PageRequest{Limit: defaultPageLimit, Cursor: cursor})
	out := page.Listing{Next: all.Next}
	for _, a := range all.Analyses {
		item := page.Item{
			ID: a.ID, Status: string(a.Status), Clips: len(a.Clips), Worker: a.Holder.WorkerID, Created: a.CreatedAt, Updated: a.UpdatedAt,
		}
		if len(a.Clips) > 0 {
			item.Name = a.Clips[0].Name
		}
		out.Items = append(out.Items, item)
	}

	return out, err
}

// Analysis reads one analysis.
func (p pageSource) Analysis(ctx context.Context, id string) (page.Analysis, error) {
	v, err := p.s.fullView(ctx, id)
	if err != nil {
		return page.Analysis{}, err
	}
	out := page.Analysis{ID: v.AnalysisID, Status: string(v.Status), Error: v.Error, Created: v.CreatedAt}
	if out.Data, err = json.Marshal(v); err != nil {
		return out, err
	}
	for _, c := range v.Clips {
		clip := page.Clip{ID: c.ID, Name: c.Name, ContentType: c.ContentType}
		// A storage that is away costs the preview, not the page.
		if o, err := p.s.storage.Stat(ctx, previewKey(id, c.ID)); err == nil {
			clip.Preview, clip.PreviewType = true, o.ContentType
		}
		out.Clips = append(out.Clips, clip)
	}
	for _, e := range v.Timeline {
		line := page.Event{At: e.At, Kind: e.Kind, Epoch: e.Epoch, Detail: e.Detail}
		if e.Holder != nil {
			line.Worker, line.Source, line.Attempt = e.Holder.WorkerID, string(e.Holder.Source), e.Holder.Attempt
		}
		out.Timeline = append(out.Timeline, line)
	}

	return out, nil
}

// Fault tells status and sentence of an error of the two above.
func (p pageSource) Fault(err error) (int, string) {
	problem := asProblem(err)

	return problem.status, problem.detail
}
