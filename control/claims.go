package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/posefleet/posefleet/control/storage"
	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

const (
	// maxNameLength bounds the names that workers give themselves and their jobs.
	maxNameLength = 256
	// maxArtifactBytes bounds a pose document in storage.
	maxArtifactBytes = 512 << 20
	// notSubmittedWait is when to ask again for an analysis whose clips are still on their way.
	notSubmittedWait = 10 * time.Second
	// artifactLooks bounds how many granted artifacts are looked for in storage at one redeem.
	artifactLooks = 5
)

// claimAnswer is a claim with the params as they were sent, so that keys which this build does not know pass through.
type claimAnswer struct {
	protocol.Claim
	Params json.RawMessage `json:"params,omitempty"`
}

// redeem is POST /v1/claims/{id}.
func (s *Server) redeem(w http.ResponseWriter, r *http.Request, m message) error {
	request, err := protocol.ParseRedeemRequest(m.body)
	if err == nil {
		err = m.of(request.AnalysisID)
	}
	if err == nil {
		err = checkNames(request.WorkerID, request.JobID)
	}
	if err != nil {
		return err
	}
	holder := store.Holder{WorkerID: request.WorkerID, Source: request.Source, JobID: request.JobID, Attempt: request.Attempt}
	grant, err := s.store.Redeem(r.Context(), m.analysisID, holder, jobSeen(r.Context(), s.queue, holder), s.cfg.Lease)
	s.metrics.claims.WithLabelValues(redeemed(grant, err)).Inc()
	if err != nil {
		return redeemProblem(err)
	}
	s.hub.notify(m.analysisID)
	claim, err := s.claim(r.Context(), grant.Analysis)
	if err != nil {
		// The lease stands; the same holder's next try gets the same claim.
		return unavailable("The storage can't be reached.", err)
	}

	return answer(w, http.StatusOK, claim)
}

// checkNames refuses names that a database could not keep or a page could not show.
func checkNames(names ...string) error {
	for _, name := range names {
		if len(name) > maxNameLength || checkText(name) != nil {
			return refuse(http.StatusBadRequest, protocol.CodeInvalidRequest, "A name is longer than 256 bytes or is no text.")
		}
	}

	return nil
}

// checkText refuses what is no text that a database keeps.
func checkText(text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return badRequest("there is something in it that is no text")
	}

	return nil
}

// redeemed is what became of a redemption, for the metrics.
func redeemed(g store.Grant, err error) string {
	_, held := errors.AsType[*store.HeldError](err)
	_, gone := errors.AsType[*store.GoneError](err)
	switch {
	case held:
		return "held"
	case gone:
		return "gone"
	case errors.Is(err, store.ErrUnknown):
		return "unknown"
	case errors.Is(err, store.ErrNotSubmitted):
		return "not_submitted"
	case err != nil:
		return "fault"
	case g.Repeat:
		return "repeated"
	}

	return "granted"
}

func redeemProblem(err error) error {
	if held, ok := errors.AsType[*store.HeldError](err); ok {
		p := refuse(http.StatusConflict, protocol.CodeClaimHeld, "Another holder has the claim.")
		p.retryAfter = held.Left

		return p
	}
	if gone, ok := errors.AsType[*store.GoneError](err); ok {
		return goneProblem(gone.Status)
	}
	if errors.Is(err, store.ErrUnseen) {
		return unavailable("The queue can't be asked about the job.", err)
	}
	if errors.Is(err, store.ErrNotSubmitted) {
		p := refuse(http.StatusConflict, protocol.CodeConflict, "The analysis has not been submitted yet.")
		p.retryAfter = notSubmittedWait

		return p
	}

	return err
}

// goneProblem: of a failed analysis the outcome has been delivered too, so that there is nothing left to do.
func goneProblem(status store.Status) *problem {
	p := refuse(http.StatusGone, protocol.CodeClaimGone, fmt.Sprintf("The analysis is %s.", status))
	p.reason = protocol.GoneDelivered
	if status == store.StatusCancelled {
		p.reason = protocol.GoneCancelled
	}

	return p
}

// claim makes the answer to a redeem, with fresh URLs.
func (s *Server) claim(ctx context.Context, a store.Analysis) (claimAnswer, error) {
	c := claimAnswer{Params: a.Params, Claim: protocol.Claim{
		AnalysisID: a.ID, Claim: a.Claim, Epoch: a.Epoch, LeaseSeconds: int(s.cfg.Lease / time.Second),
		Clips: []protocol.ClaimClip{}, Callback: protocol.Callback{URL: s.base + "/v1/results/" + a.ID},
	}}
	for _, clip := range a.Clips {
		u, err := s.storage.SignGet(ctx, clip.Key)
		if err != nil {
			return c, err
		}
		c.Clips = append(c.Clips, protocol.ClaimClip{
			ID: clip.ID, URL: u.URL, Headers: u.Headers, Size: &clip.Size, SHA256: clip.SHA256, ETag: clip.ETag, ExpiresAt: &u.ExpiresAt,
		})
	}
	var err error
	c.Artifact, err = s.storedArtifact(ctx, a)

	return c, err
}

// storedArtifact finds an artifact of an earlier start that is really in storage; nil if there is none.
func (s *Server) storedArtifact(ctx context.Context, a store.Analysis) (*protocol.StoredArtifact, error) {
	granted, err := s.store.Artifacts(ctx, a.ID, a.ParamsDigest)
	if err != nil {
		return nil, err
	}
	for _, g := range granted[:min(len(granted), artifactLooks)] {
		// Without model and clips it could be posted by nobody.
		if g.Model == nil || len(g.Clips) == 0 {
			continue
		}
		art := protocol.Artifact{Key: g.Key, Size: g.Size, SHA256: g.SHA256}
		switch stored, err := s.isStored(ctx, art); {
		case err != nil:
			return nil, err
		case stored:
			return &protocol.StoredArtifact{Artifact: art, Model: *g.Model, Clips: g.Clips}, nil
		}
	}

	return nil, nil
}

// isStored looks whether exactly this artifact is in storage.
func (s *Server) isStored(ctx context.Context, a protocol.Artifact) (bool, error) {
	o, err := s.storage.Stat(ctx, a.Key)
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}

	return o.Size == a.Size && (o.SHA256 == "" || o.SHA256 == a.SHA256), nil
}

// renew is POST /v1/claims/{id}/renew.
func (s *Server) renew(w http.ResponseWriter, r *http.Request, m message) error {
	lease, err := m.lease()
	if err == nil {
		err = s.store.Renew(r.Context(), lease, s.cfg.Lease)
	}
	if err != nil {
		return s.leaseProblem(r.Context(), m.analysisID, err)
	}

	return answer(w, http.StatusOK, protocol.LeaseAnswer{LeaseSeconds: int(s.cfg.Lease / time.Second)})
}

// release is POST /v1/claims/{id}/release.
func (s *Server) release(w http.ResponseWriter, r *http.Request, m message) error {
	lease, err := m.lease()
	if err == nil {
		err = s.store.Release(r.Context(), lease)
	}
	if err != nil {
		return err
	}
	s.hub.notify(m.analysisID)
	w.WriteHeader(http.StatusNoContent)

	return nil
}

func (m message) lease() (store.Lease, error) {
	request, err := protocol.ParseLeaseRequest(m.body)
	if err == nil {
		err = m.of(request.AnalysisID)
	}

	return store.Lease{AnalysisID: request.AnalysisID, Claim: request.Claim, Epoch: request.Epoch}, err
}

// leaseProblem gives the reason where the claim was lost to nobody: the holder then ends its job instead of asking again later.
func (s *Server) leaseProblem(ctx context.Context, id string, err error) error {
	if !errors.Is(err, store.ErrLost) {
		return err
	}
	p := refuse(http.StatusConflict, protocol.CodeClaimLost, "The claim is held by another.")
	// Without an answer the holder asks again later, as if another had it.
	if a, err := s.store.Analysis(ctx, id); err == nil && a.Status.Terminal() {
		gone := goneProblem(a.Status)
		p.reason, p.detail = gone.reason, gone.detail+" Nobody needs the claim any more."
	}

	return p
}

// artifact is POST /v1/claims/{id}/artifact.
func (s *Server) artifact(w http.ResponseWriter, r *http.Request, m message) error {
	request, err := protocol.ParseArtifactRequest(m.body)
	if err == nil {
		err = m.of(request.AnalysisID)
	}
	if err == nil {
		err = checkArtifact(request)
	}
	if err != nil {
		return err
	}
	sha := strings.ToLower(request.SHA256)
	put := storage.Put{
		// Content and epoch are in the key: nothing that is written there later can be anything else.
		Key:  fmt.Sprintf("analyses/%s/artifacts/%d-%s/%s", request.AnalysisID, request.Epoch, sha, request.Name),
		Size: request.Size, SHA256: sha, ContentType: request.ContentType,
	}
	err = s.store.GrantArtifact(r.Context(), store.Lease{AnalysisID: request.AnalysisID, Claim: request.Claim, Epoch: request.Epoch},
		store.StoredArtifact{
			Key: put.Key, Name: request.Name, ContentType: request.ContentType, Size: request.Size, SHA256: sha,
			Model: request.Model, Clips: request.Clips,
		})
	if err != nil {
		return s.leaseProblem(r.Context(), m.analysisID, err)
	}
	u, err := s.storage.SignPut(r.Context(), put)
	if err != nil {
		return unavailable("The storage can't be reached.", err)
	}
	s.hub.notify(m.analysisID)

	return answer(w, http.StatusOK, protocol.ArtifactAnswer{URL: u.URL, Headers: u.Headers, Key: put.Key})
}

func checkArtifact(a protocol.ArtifactRequest) error {
	if a.Size > maxArtifactBytes {
		return refuse(http.StatusRequestEntityTooLarge, protocol.CodeRequestTooLarge, "The artifact is larger than 512 MiB.")
	}

	return checkContentType(a.ContentType)
}

// checkContentType refuses what could not be sent as one header line.
func checkContentType(t string) error {
	if _, _, err := mime.ParseMediaType(t); err != nil || len(t) > maxNameLength || strings.ContainsFunc(t, notPlain) {
		return refuse(http.StatusBadRequest, protocol.CodeInvalidRequest, "contentType is no media type.")
	}

	return nil
}

// notPlain tells runes that are not printable ASCII.
func notPlain(r rune) bool { return r < ' ' || r > '~' }
