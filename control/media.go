package control

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posefleet/posefleet/control/storage"
	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

// maxPoseBytes bounds a pose document that is unpacked for a caller who does not take gzip.
const maxPoseBytes = 1 << 30

// clipOf finds the clip of the path.
func (s *Server) clipOf(r *http.Request) (store.Analysis, store.Clip, error) {
	a, err := s.store.Analysis(r.Context(), r.PathValue("id"))
	if err != nil {
		return a, store.Clip{}, err
	}
	i := slices.IndexFunc(a.Clips, func(c store.Clip) bool { return c.ID == r.PathValue("clip") })
	if i < 0 {
		return a, store.Clip{}, refuse(http.StatusNotFound, protocol.CodeNotFound, "The analysis has no clip with this id.")
	}

	return a, a.Clips[i], nil
}

// clip is GET /v1/analyses/{id}/clips/{clip}: the media, with ranges.
func (s *Server) clip(w http.ResponseWriter, r *http.Request) error {
	_, c, err := s.clipOf(r)
	if err != nil {
		return err
	}

	return s.serveObject(w, r, c.Key)
}

// previewKey is where a rendition that browsers play is kept.
func previewKey(analysisID, clipID string) string {
	return fmt.Sprintf("analyses/%s/previews/%s", analysisID, clipID)
}

// preview is GET /v1/analyses/{id}/clips/{clip}/preview: a rendition that any browser plays, if one was uploaded.
func (s *Server) preview(w http.ResponseWriter, r *http.Request) error {
	a, c, err := s.clipOf(r)
	if err != nil {
		return err
	}

	return s.serveObject(w, r, previewKey(a.ID, c.ID))
}

// putPreview is POST /v1/analyses/{id}/clips/{clip}/preview: where to put such a rendition.
func (s *Server) putPreview(w http.ResponseWriter, r *http.Request) error {
	a, c, err := s.clipOf(r)
	if err != nil {
		return err
	}
	request := createClip{}
	if err := readJSON(w, r, maxRequestBytes, &request); err != nil {
		return err
	}
	request.ID = c.ID
	file, err := request.clip(a.ID)
	if err != nil {
		return err
	}
	u, err := s.storage.SignPut(r.Context(), storage.Put{
		Key: previewKey(a.ID, c.ID), Size: file.Size, SHA256: file.SHA256, ContentType: file.ContentType,
	})
	if err != nil {
		return err
	}

	return answer(w, http.StatusOK, upload{Clip: c.ID, URL: u.URL, Method: http.MethodPut, Headers: u.Headers})
}

// serveObject streams an object of storage. Its bytes are somebody else's: a browser must not take them for a page.
func (s *Server) serveObject(w http.ResponseWriter, r *http.Request, key string) error {
	content, o, err := s.openObject(r, key)
	if err != nil {
		return err
	}
	defer content.Close()
	h := w.Header()
	h.Set("ETag", o.ETag)
	h.Set("Content-Type", o.ContentType)
	h.Set("Cache-Control", "private, no-cache")
	storage.Harmless(h)
	http.ServeContent(w, r, "", time.Time{}, content)

	return nil
}

func (s *Server) openObject(r *http.Request, key string) (io.ReadSeekCloser, storage.Object, error) {
	content, o, err := s.storage.Open(r.Context(), key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, o, refuse(http.StatusNotFound, protocol.CodeNotFound, "It is not in storage.")
	}
	if err != nil {
		return nil, o, unavailable("The storage can't be reached.", err)
	}

	return content, o, nil
}

// pose is GET /v1/analyses/{id}/pose: the pose document, as it is stored for callers that take gzip.
func (s *Server) pose(w http.ResponseWriter, r *http.Request) error {
	a, err := s.store.Analysis(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if a.Status != store.StatusDelivered || a.Artifact == nil {
		return refuse(http.StatusNotFound, protocol.CodeNotFound, "The analysis has no pose document: it has not been delivered.")
	}
	content, o, err := s.openObject(r, a.Artifact.Key)
	if err != nil {
		return err
	}
	defer content.Close()
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "private, no-cache")
	storage.Harmless(h)
	packed := bufio.NewReader(content)
	magic, _ := packed.Peek(2) // a shorter document is no gzip
	switch {
	case string(magic) != "\x1f\x8b":
	case takesGzip(r):
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.FormatInt(o.Size, 10))
	default:
		return unpack(w, packed)
	}
	// Half a document breaks off: the caller sees it by the length.
	_, _ = io.Copy(w, packed)

	return nil
}

// unpack sends the document without gzip.
func unpack(w http.ResponseWriter, packed io.Reader) error {
	plain, err := gzip.NewReader(packed)
	if err != nil {
		return unavailable("The pose document is damaged.", err)
	}
	if _, err := io.Copy(w, io.LimitReader(plain, maxPoseBytes)); err != nil {
		// The status has been sent; only a broken connection tells that this is not the whole.
		panic(http.ErrAbortHandler)
	}

	return nil
}

// takesGzip tells whether Accept-Encoding names gzip and does not refuse it.
func takesGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name = strings.ToLower(strings.TrimSpace(name)); name == "gzip" || name == "*" {
			return !strings.HasPrefix(strings.ReplaceAll(q, " ", ""), "q=0") || strings.ContainsAny(q, "123456789")
		}
	}

	return false
}
