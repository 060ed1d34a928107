package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/posefleet/posefleet/control/storage"
	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/internal/strictjson"
	"github.com/posefleet/posefleet/protocol"
)

const (
	maxCreateBytes = 256 * 1024
	maxClipBytes   = 5 << 30 // S3's limit for one PUT
)

var sha256Hex = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

// createRequest is the body of POST /v1/analyses.
type createRequest struct {
	AnalysisID string          `json:"analysisId,omitempty" doc:"Chosen by the server if missing."`
	Account    string          `json:"account,omitempty" doc:"Who pays; default if missing."`
	Clips      []createClip    `json:"clips"`
	Params     json.RawMessage `json:"params,omitempty" doc:"What is wished of the pass; see the contract of claims."`
}

type createClip struct {
	ID          string `json:"id,omitempty" doc:"Needed, except for a rendition."`
	Name        string `json:"name,omitempty"`
	Size        int64  `json:"size" minimum:"0" maximum:"5368709120"`
	SHA256      string `json:"sha256" pattern:"^[0-9a-fA-F]{64}$"`
	ContentType string `json:"contentType,omitempty"`
}

// upload says where and how to put a file.
type upload struct {
	Clip    string           `json:"clip,omitempty"`
	URL     string           `json:"url"`
	Method  string           `json:"method"`
	Headers protocol.Headers `json:"headers"`
}

// createAnswer answers POST /v1/analyses.
type createAnswer struct {
	AnalysisID string   `json:"analysisId"`
	Uploads    []upload `json:"uploads"`
}

// create is POST /v1/analyses. Sent again it is answered alike, with fresh URLs; with other content it is a conflict.
func (s *Server) create(w http.ResponseWriter, r *http.Request) error {
	var request createRequest
	if err := readJSON(w, r, maxCreateBytes, &request); err != nil {
		return err
	}
	n, err := request.analysis()
	if err != nil {
		return err
	}
	a, created, err := s.store.CreateAnalysis(r.Context(), n)
	if errors.Is(err, store.ErrConflict) {
		return refuse(http.StatusConflict, protocol.CodeConflict, "There is an analysis with this id and other clips or parameters.")
	}
	if errors.Is(err, store.ErrNoCredit) {
		return refuse(http.StatusPaymentRequired, protocol.CodeNoCredit, "The account has no credit left.")
	}
	if err != nil {
		return err
	}
	out := createAnswer{AnalysisID: a.ID, Uploads: []upload{}}
	for _, c := range a.Clips {
		u, err := s.storage.SignPut(r.Context(), storage.Put{Key: c.Key, Size: c.Size, SHA256: c.SHA256, ContentType: c.ContentType})
		if err != nil {
			return err
		}
		out.Uploads = append(out.Uploads, upload{Clip: c.ID, URL: u.URL, Method: http.MethodPut, Headers: u.Headers})
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	w.Header().Set("Location", "/v1/analyses/"+a.ID)

	return answer(w, status, out)
}

// analysis checks the request and turns it into what the store keeps.
func (c createRequest) analysis() (store.NewAnalysis, error) {
	n := store.NewAnalysis{ID: c.AnalysisID, Account: c.Account, Params: c.Params}
	if n.Account != "" && protocol.ValidateID(n.Account) != nil {
		return n, badRequest("account is 1 to 128 characters of A-Z, a-z, 0-9, _ and -, and not a number")
	}
	if n.ID == "" {
		n.ID = "an_" + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "")
	}
	if err := protocol.ValidateID(n.ID); err != nil {
		return n, err
	}
	if len(c.Clips) == 0 || len(c.Clips) > protocol.MaxClips {
		return n, badRequest("an analysis has 1 to %d clips", protocol.MaxClips)
	}
	var ids []protocol.ClaimClip
	seen := map[string]bool{}
	for _, in := range c.Clips {
		clip, err := in.clip(n.ID)
		if err != nil {
			return n, err
		}
		if seen[clip.ID] {
			return n, badRequest("clip id %q comes twice", clip.ID)
		}
		seen[clip.ID] = true
		ids = append(ids, protocol.ClaimClip{ID: clip.ID})
		n.Clips = append(n.Clips, clip)
	}
	if len(n.Params) == 0 || string(n.Params) == "null" {
		n.Params = json.RawMessage("{}")
	}
	params, err := protocol.ParseParams(n.Params)
	if err == nil {
		err = params.Validate(ids)
	}

	return n, err
}

func (c createClip) clip(analysisID string) (store.Clip, error) {
	out := store.Clip{
		ID: c.ID, Name: path.Base(strings.ReplaceAll(c.Name, `\`, "/")), Size: c.Size, SHA256: strings.ToLower(c.SHA256), ContentType: c.ContentType,
		Key: fmt.Sprintf("analyses/%s/clips/%s", analysisID, c.ID),
	}
	if c.Name == "" {
		out.Name = ""
	}
	if out.ContentType == "" {
		out.ContentType = "application/octet-stream"
	}
	switch {
	case !protocol.ValidClipID(c.ID):
		return out, badRequest("clip id %q is not 1 to 64 characters of A-Z, a-z, 0-9, dot, _ and -", c.ID)
	case c.Size < 0 || c.Size > maxClipBytes:
		return out, badRequest("the size of clip %q is not 0 to 5 GiB", c.ID)
	case !sha256Hex.MatchString(c.SHA256):
		return out, badRequest("the sha256 of clip %q is not 64 hex digits", c.ID)
	}
	if err := checkNames(out.Name); err != nil {
		return out, err
	}

	return out, checkContentType(out.ContentType)
}

// submit is POST /v1/analyses/{id}/submit: it ends the upload and lets the work begin.
func (s *Server) submit(w http.ResponseWriter, r *http.Request) error {
	var request submitRequest
	if err := readJSON(w, r, maxRequestBytes, &request); err != nil {
		return err
	}
	if request.Dispatch != "" && request.Dispatch != "queue" && request.Dispatch != "none" {
		return badRequest("dispatch is queue or none")
	}
	a, err := s.store.Analysis(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if a.Status == store.StatusUploading {
		if err := s.checkUploads(r, a.Clips); err != nil {
			return err
		}
	}
	reason := store.RunSubmitted
	if request.Dispatch == "none" {
		reason = store.RunFollowed
	}
	a, err = s.store.Submit(r.Context(), store.Submission{ID: a.ID, Clips: a.Clips, Run: reason})
	if err != nil {
		return err
	}
	s.hub.notify(a.ID)
	s.relay.wakeUp()
	s.workers.Kick()

	return answer(w, http.StatusAccepted, s.view(a))
}

// checkUploads looks for every clip in storage and fills in its ETag.
func (s *Server) checkUploads(r *http.Request, clips []store.Clip) error {
	for i, c := range clips {
		o, err := s.storage.Stat(r.Context(), c.Key)
		if errors.Is(err, storage.ErrNotFound) {
			return refuse(http.StatusConflict, protocol.CodeInputMissing, fmt.Sprintf("Clip %q has not been uploaded.", c.ID))
		}
		if err != nil {
			return unavailable("The storage can't be reached.", err)
		}
		if o.Size != c.Size || (o.SHA256 != "" && o.SHA256 != c.SHA256) {
			return refuse(http.StatusConflict, protocol.CodeInputMismatch, fmt.Sprintf("Clip %q is not what was announced.", c.ID))
		}
		clips[i].ETag = o.ETag
	}

	return nil
}

// readJSON reads a JSON body of an operator; an absent one leaves v as it is. A field that is not known or comes twice is refused by its name.
func readJSON(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return readFault(err)
	}
	if len(body) == 0 {
		return nil
	}
	// Only a page of our own can make a browser send this type: a foreign form can't.
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, protocol.CodeUnsupportedMedia, "The body has to be application/json.")
	}
	err = strictjson.Unmarshal(body, v)
	if f, ok := errors.AsType[*strictjson.FieldError](err); ok {
		return badRequest("The body is not what is expected: %v.", f)
	}
	if err != nil {
		return &problem{status: http.StatusBadRequest, code: protocol.CodeInvalidRequest, detail: "The body is not JSON of the expected shape.", cause: err}
	}

	return nil
}

func badRequest(format string, args ...any) *problem {
	return refuse(http.StatusBadRequest, protocol.CodeInvalidRequest, fmt.Sprintf(format, args...))
}
