package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/worker/internal/extractor"
	"github.com/posefleet/posefleet/worker/internal/scratch"
)

// diskMargin is how much more than the declared input has to be free on the disk: 30 %.
const diskMargin = 1.3

// download fetches the claim's clips one after the other and verifies them.
func (e *engine) download(ctx context.Context, r *run, dir *scratch.Job, j *journal) (string, error) {
	claim := r.redemption()
	if err := e.client.CheckSizes(claim.Clips); err != nil {
		return "", err
	}
	total, err := e.admitInput(claim)
	if err != nil {
		return "", err
	}
	var before int64 // bytes of the clips that are complete
	for i, clip := range claim.Clips {
		d := claimcheck.Download{
			Clip: clip, Path: dir.Clip(i), MaxBytes: max(e.maxInput-before, 1),
			Refresh: func(ctx context.Context) (protocol.ClaimClip, error) { return e.freshClip(ctx, r, clip.ID) },
			Progress: func(done, _ int64) {
				e.progress(r, j, protocol.StageDownload, share(before+done, total, i, len(claim.Clips)))
			},
		}
		if err := e.client.Download(ctx, d); err != nil {
			return "", err
		}
		info, err := os.Stat(d.Path)
		if err != nil {
			return "", diskFault(err)
		}
		before += info.Size()
	}
	return fmt.Sprintf("%s, %d bytes", clipCount(len(claim.Clips)), before), nil
}

func clipCount(n int) string {
	if n == 1 {
		return "1 clip"
	}
	return fmt.Sprintf("%d clips", n)
}

// admitInput looks for room on the disk for all clips together, before the first byte is fetched. It returns the sum
// of the declared sizes, 0 if one is unknown.
func (e *engine) admitInput(claim *claimcheck.Redemption) (int64, error) {
	var total int64
	known := true
	for _, c := range claim.Clips {
		if c.Size == nil {
			known = false
			continue
		}
		total += *c.Size
	}
	free, err := e.space.Free()
	if err != nil {
		return 0, diskFault(err)
	}
	if float64(total)*diskMargin > float64(free) {
		return 0, protocol.NewRetryableFault(protocol.CodeDiskFull, "the worker's disk has no room for the input")
	}
	if !known {
		return 0, nil
	}
	return total, nil
}

// share is the part of the input that is there: by bytes where the total is known, by clips where it is not.
func share(done, total int64, clip, clips int) float64 {
	if total > 0 {
		return min(float64(done)/float64(total), 1)
	}
	return float64(clip) / float64(clips)
}

// freshClip redeems again as the same holder, which gives fresh URLs for the same claim.
func (e *engine) freshClip(ctx context.Context, r *run, clipID string) (protocol.ClaimClip, error) {
	claim, err := e.client.Redeem(ctx, e.redeemRequest(r))
	if err != nil {
		return protocol.ClaimClip{}, fmt.Errorf("redeem again: %w", err)
	}
	if claim.Epoch != r.redemption().Epoch {
		r.cancel(ErrLeaseLost)
		return protocol.ClaimClip{}, ErrLeaseLost
	}
	for _, c := range claim.Clips {
		if c.ID == clipID {
			return c, nil
		}
	}
	return protocol.ClaimClip{}, protocol.NewFault(protocol.CodeInputMissing, "the claim does not name the clip any more")
}

// extract runs the extractor on the downloaded clips.
func (e *engine) extract(ctx context.Context, r *run, dir *scratch.Job, j *journal) (extractor.Result, string, error) {
	claim := r.redemption()
	var clips []protocol.ExtractorClip
	for i, c := range claim.Clips {
		clips = append(clips, protocol.ExtractorClip{ID: c.ID, Path: dir.Clip(i)})
	}
	job := protocol.NewExtractorJob(r.id, clips, dir.Out(), claim.RawParams)
	result, err := e.pool.Extract(ctx, job, func(done float64) { e.progress(r, j, protocol.StageExtract, done) })
	if err != nil {
		return result, "", err
	}
	frames := 0
	for _, c := range result.Clips {
		frames += c.Frames
	}
	e.metrics.frames(frames)
	return result, fmt.Sprintf("%d frames", frames), nil
}

// upload stores the document and returns its name.
func (e *engine) upload(ctx context.Context, r *run, result extractor.Result) (*protocol.StoredArtifact, string, error) {
	claim := r.redemption()
	sum, err := fileSHA256(result.Path)
	if err != nil {
		return nil, "", diskFault(err)
	}
	clips := protocol.FitClips(result.Clips)
	req := protocol.ArtifactRequest{
		AnalysisID: r.id, Claim: claim.Claim.Claim, Epoch: claim.Epoch, Name: result.Artifact, ContentType: result.ContentType,
		Size: result.Size, SHA256: sum, Model: &result.Model, Clips: clips,
	}
	ask := func(ctx context.Context) (protocol.ArtifactAnswer, error) {
		answer, err := e.client.Artifact(ctx, req)
		if err != nil {
			return protocol.ArtifactAnswer{}, e.artifactRefused(r, err)
		}
		return *answer, nil
	}
	target, err := ask(ctx)
	if err != nil {
		return nil, "", err
	}
	err = e.client.Upload(ctx, claimcheck.Upload{
		Target: target, Path: result.Path, Size: result.Size, ContentType: result.ContentType, Refresh: ask,
	})
	if err != nil {
		return nil, "", err
	}
	stored := &protocol.StoredArtifact{
		Artifact: protocol.Artifact{Key: target.Key, Size: result.Size, SHA256: sum}, Model: result.Model, Clips: clips,
	}
	return stored, fmt.Sprintf("%d bytes", result.Size), nil
}

// artifactRefused turns a refusal that says "not yours any more" into the loss of the claim.
func (e *engine) artifactRefused(r *run, err error) error {
	claim, ok := errors.AsType[*claimcheck.ClaimError](err)
	if !ok {
		return err
	}
	switch claim.Kind {
	case claimcheck.KindLost, claimcheck.KindHeld, claimcheck.KindUnknown:
		r.cancel(fmt.Errorf("%w: %w", ErrLeaseLost, err))
	case claimcheck.KindGone:
		r.cancel(fmt.Errorf("%w: %w", ErrUnwanted, err))
	}
	return err
}

func fileSHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
