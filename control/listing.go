package control

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

const (
	defaultPageLimit = 50
	maxPageLimit     = 200
)

// statuses are the states that a list may be asked for.
func statuses() []store.Status {
	return []store.Status{
		store.StatusUploading, store.StatusQueued, store.StatusProcessing, store.StatusDelivered, store.StatusFailed, store.StatusCancelled,
	}
}

var idPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// pageRequest reads limit, cursor, status, account and id (how it begins).
func pageRequest(q url.Values) (store.PageRequest, error) {
	r := store.PageRequest{
		Limit: defaultPageLimit, Cursor: q.Get("cursor"), Status: store.Status(q.Get("status")), Account: q.Get("account"), IDPrefix: q.Get("id"),
	}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPageLimit {
			return r, badRequest("limit is 1 to %d", maxPageLimit)
		}
		r.Limit = n
	}
	switch {
	case r.Status != "" && !slices.Contains(statuses(), r.Status):
		return r, badRequest("status is uploading, queued, processing, delivered, failed or cancelled")
	case r.Account != "" && protocol.ValidateID(r.Account) != nil:
		return r, badRequest("that can't be an account")
	case r.IDPrefix != "" && !idPrefix.MatchString(r.IDPrefix):
		return r, badRequest("id is the beginning of an analysis id: A-Z, a-z, 0-9, _ and -")
	}

	return r, nil
}

// listView is a page of analyses.
type listView struct {
	Analyses []analysisView `json:"analyses"`
	Next     string         `json:"next,omitempty" doc:"Cursor of the next page; missing on the last one."`
}

// list is GET /v1/analyses.
func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	request, err := pageRequest(r.URL.Query())
	if err != nil {
		return err
	}
	out, err := s.listed(r.Context(), request)
	if err != nil {
		return err
	}

	return answerTagged(w, r, out)
}

func (s *Server) listed(ctx context.Context, request store.PageRequest) (listView, error) {
	p, err := s.store.Analyses(ctx, request)
	out := listView{Analyses: []analysisView{}, Next: p.Next}
	for _, a := range p.Analyses {
		out.Analyses = append(out.Analyses, s.view(a))
	}

	return out, err
}

// get is GET /v1/analyses/{id}.
func (s *Server) get(w http.ResponseWriter, r *http.Request) error {
	v, err := s.fullView(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}

	return answerTagged(w, r, v)
}
