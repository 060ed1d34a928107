package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
)

// Bounds of a claim. They keep every result within MaxResultBytes, whatever the extractor says about the clips.
const (
	MaxClips     = 100
	MaxKeyLength = 1024
	maxNameRunes = 256
)

var errShape = errors.New("not of the expected shape")

// ParseClaim reads the answer to a redemption of analysisID. An answer of another shape is an error: a claim is
// for this analysis, has an id, a callback and at least one clip; clips have unique ids that are safe as file
// names, an http(s) URL, sizes that are not negative, and sums of 64 hex digits. params is returned verbatim ({}
// if absent) and put into the claim only if it is valid, see ParseParams: wishes that make no sense are the
// analysis's fault, not the answer's.
func ParseClaim(data []byte, analysisID string) (claim Claim, params json.RawMessage, err error) {
	var answer struct {
		Claim
		Params json.RawMessage `json:"params"` // hides Claim.Params
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return Claim{}, nil, fmt.Errorf("claim: %w", errShape)
	}
	claim = answer.Claim
	if err := claim.validate(analysisID); err != nil {
		return Claim{}, nil, fmt.Errorf("claim: %w", err)
	}
	params = answer.Params
	if len(params) == 0 || bytes.Equal(params, []byte("null")) {
		return claim, json.RawMessage("{}"), nil
	}
	if p, err := ParseParams(params); err == nil {
		claim.Params = &p
	}
	return claim, params, nil
}

func (c Claim) validate(analysisID string) error {
	switch {
	case c.AnalysisID != analysisID:
		return errors.New("it is for another analysis")
	case c.Claim == "" || len(c.Claim) > maxNameRunes:
		return errors.New("it has no claim id")
	case c.Epoch < 0 || c.LeaseSeconds < 0:
		return errors.New("epoch or leaseSeconds is negative")
	case !isHTTPURL(c.Callback.URL):
		return errors.New("it has no callback URL")
	case len(c.Clips) == 0 || len(c.Clips) > MaxClips:
		return fmt.Errorf("it has %d clips, not 1 to %d", len(c.Clips), MaxClips)
	}
	seen := make(map[string]bool, len(c.Clips))
	for i, clip := range c.Clips {
		if err := clip.validate(); err != nil {
			return fmt.Errorf("clip %d: %w", i+1, err)
		}
		if seen[clip.ID] {
			return fmt.Errorf("clip %d: its id is used twice", i+1)
		}
		seen[clip.ID] = true
	}
	if c.Artifact != nil {
		return c.Artifact.validate()
	}
	return nil
}

func (c ClaimClip) validate() error {
	switch {
	case !ValidClipID(c.ID):
		return errors.New("its id is not 1 to 64 characters of A-Z, a-z, 0-9, dot, _ and -")
	case !isHTTPURL(c.URL):
		return errors.New("it has no http(s) URL")
	case c.Size != nil && *c.Size < 0:
		return errors.New("its size is negative")
	case c.SHA256 != "" && !sha256Pattern.MatchString(c.SHA256):
		return errors.New("its sha256 is not 64 hex digits")
	}
	return nil
}

func (a Artifact) validate() error {
	switch {
	case a.Key == "" || len(a.Key) > MaxKeyLength:
		return errors.New("the artifact has no key")
	case a.Size < 0:
		return errors.New("the artifact's size is negative")
	case !sha256Pattern.MatchString(a.SHA256):
		return errors.New("the artifact's sha256 is not 64 hex digits")
	}
	return nil
}

// isHTTPURL tells whether text is an absolute http or https URL. Which of them are allowed is decided elsewhere.
func isHTTPURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// ParseArtifactAnswer reads a presigned PUT.
func ParseArtifactAnswer(data []byte) (ArtifactAnswer, error) {
	var a ArtifactAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return ArtifactAnswer{}, fmt.Errorf("artifact answer: %w", errShape)
	}
	if !isHTTPURL(a.URL) || a.Key == "" || len(a.Key) > MaxKeyLength {
		return ArtifactAnswer{}, errors.New("artifact answer: it has no url or no key")
	}
	return a, nil
}

// ParseLeaseAnswer reads the answer to a renewal.
func ParseLeaseAnswer(data []byte) (LeaseAnswer, error) {
	var a LeaseAnswer
	if err := json.Unmarshal(data, &a); err != nil || a.LeaseSeconds <= 0 {
		return LeaseAnswer{}, fmt.Errorf("lease answer: %w", errShape)
	}
	return a, nil
}
