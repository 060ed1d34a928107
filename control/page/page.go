// Package page is the operators' page: the list of analyses; one analysis with its clip, the skeleton drawn on it, its angles, and
// everything that touched it: executions, credits, ledger, timeline; queue and fleet over time.
//
// The pages are complete without scripts, and their forms work; the scripts add the skeleton and the angles and keep what is shown
// current, by fetching the parts of the page that changed (?part=live) when a server-sent event tells. Nothing is loaded from elsewhere, and a strict Content-Security-Policy holds the browser to that. Tests and tools find their way by ids:
// #state (its text is the status), video#clip, canvas#skeleton with data-frames (frames of the pose document) and
// data-drawn (how often a skeleton was really drawn), #note (what could not be shown, and why), #timeline, #live
// (what is fetched again).
package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/posefleet/posefleet/internal/player"
)

//go:embed templates static
var files embed.FS

// policy lets the page use its own files and nothing else. Clips may come from blob: for frames taken from them.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self' blob:; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Source is where the page reads what it shows.
type Source interface {
	// List reads a page of analyses.
	List(ctx context.Context, f Filter, cursor string) (Listing, error)
	// Analysis reads one analysis.
	Analysis(ctx context.Context, id string) (Analysis, error)
	// Fleet reads queue and fleet over a span of time, such as 6h; empty means the usual one.
	Fleet(ctx context.Context, span string) (Fleet, error)
	// Fault tells the HTTP status and a sentence for an error of the others.
	Fault(err error) (status int, sentence string)
}

// Page serves the pages.
type Page struct {
	source    Source
	log       *slog.Logger
	templates *template.Template
	static    map[string]asset
}

// asset is a file of static with its version, which is part of its address, so that browsers may keep it for ever.
type asset struct {
	body    []byte
	version string
}

// New returns the page.
func New(source Source, log *slog.Logger) *Page {
	p := &Page{source: source, log: log, static: map[string]asset{}}
	p.add(files, "static/*")
	p.add(player.Files, "*")
	p.templates = template.Must(template.New("").Funcs(template.FuncMap{
		"asset":  func(name string) string { return "/static/" + name + "?v=" + p.static[name].version },
		"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
		"human":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"number": number,
		"words":  func(kind string) string { return strings.ReplaceAll(kind, "_", " ") },
	}).ParseFS(files, "templates/*.html"))

	return p
}

// add takes in the files that are served below /static/.
func (p *Page) add(files fs.FS, pattern string) {
	for _, name := range must(fs.Glob(files, pattern)) {
		body := must(fs.ReadFile(files, name))
		sum := sha256.Sum256(body)
		p.static[path.Base(name)] = asset{body: body, version: hex.EncodeToString(sum[:8])}
	}
}

// must is for the embedded files, which a build either has or not.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}

	return v
}

// List is GET /: the analyses, newest first; filtered by ?id, ?status and ?account.
func (p *Page) List(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f := Filter{ID: strings.TrimSpace(q.Get("id")), Status: q.Get("status"), Account: strings.TrimSpace(q.Get("account"))}
	all, err := p.source.List(r.Context(), f, q.Get("cursor"))
	if err != nil {
		p.Fault(w, r, err)

		return
	}
	p.render(w, r, http.StatusOK, part(r, "list"), struct {
		Listing
		Filter            Filter
		First             bool
		FirstURL, NextURL string
	}{all, f, q.Get("cursor") == "", f.address(""), f.address(all.Next)})
}

// Analysis is GET /analyses/{id}.
func (p *Page) Analysis(w http.ResponseWriter, r *http.Request) {
	a, err := p.source.Analysis(r.Context(), r.PathValue("id"))
	if err != nil {
		p.Fault(w, r, err)

		return
	}
	p.render(w, r, http.StatusOK, part(r, "analysis"), a)
}

// Fleet is GET /fleet: queue and fleet over time.
func (p *Page) Fleet(w http.ResponseWriter, r *http.Request) {
	f, err := p.source.Fleet(r.Context(), r.URL.Query().Get("since"))
	if err != nil {
		p.Fault(w, r, err)

		return
	}
	p.render(w, r, http.StatusOK, part(r, "fleet"), f)
}

// part names the template: the whole page, or what a script fetches again.
func part(r *http.Request, page string) string {
	if r.URL.Query().Get("part") == "live" {
		return page + "-live"
	}

	return page + ".html"
}

// Login asks for the token; complaint says what was wrong with the last one.
func (p *Page) Login(w http.ResponseWriter, r *http.Request, status int, complaint string) {
	p.render(w, r, status, "login.html", complaint)
}

// Fault shows why a page can't be shown, or an action was refused.
func (p *Page) Fault(w http.ResponseWriter, r *http.Request, err error) {
	status, sentence := p.source.Fault(err)
	if status >= http.StatusInternalServerError {
		p.log.ErrorContext(r.Context(), "page can't be shown", slog.Any("error", err))
	}
	p.render(w, r, status, "fault.html", struct {
		Status         int
		Title, Details string
	}{status, http.StatusText(status), sentence})
}

func (p *Page) render(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	var body bytes.Buffer
	if err := p.templates.ExecuteTemplate(&body, name, data); err != nil {
		p.log.ErrorContext(r.Context(), "page can't be rendered", slog.String("template", name), slog.Any("error", err))
		http.Error(w, "The page can't be rendered.", http.StatusInternalServerError)

		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// The reader may be gone.
	_, _ = body.WriteTo(w)
}

// Static serves style and scripts below /static/.
func (p *Page) Static() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/static/")
		a, ok := p.static[name]
		if !ok {
			http.NotFound(w, r)

			return
		}
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("ETag", `"`+a.version+`"`)
		h.Set("Cache-Control", "no-cache")
		if r.URL.Query().Get("v") == a.version {
			h.Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(a.body))
	})
}

// Icon is GET /favicon.ico, for browsers that ask for it without having been told to.
func (p *Page) Icon(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/static/icon.svg?v="+p.static["icon.svg"].version, http.StatusFound)
}
