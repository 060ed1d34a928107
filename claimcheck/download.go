package claimcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// Download says what to fetch and where to put it.
type Download struct {
	// Clip is the clip of the claim.
	Clip protocol.ClaimClip
	// Path is the file to write. It is overwritten, and removed if the download fails.
	Path string
	// MaxBytes is what is left of the limit for the analysis; 0 means Config.MaxInputBytes.
	MaxBytes int64
	// Refresh redeems the claim again and returns the same clip with a fresh URL. Its errors end the download as
	// they are. Without it an expired URL is final.
	Refresh func(ctx context.Context) (protocol.ClaimClip, error)
	// Progress, if set, is called as bytes arrive; done can fall when a download starts over, total is -1 while it
	// is not known.
	Progress func(done, total int64)
}

// diskReserve is how much more than the clip has to be free: the artifact and whatever else is being written.
const diskReserve = 0.3

// Download fetches a clip, going on where a broken connection left off, and verifies its size and sum. What is not
// exactly the object of the claim is never accepted. A failure is, or wraps, a *protocol.Fault; if ctx ended it wraps
// ctx's cause.
//
//	request → 2xx → bytes → complete → verified → done
//	   ↑       │      │                   │
//	   │       │      └ broken, idle, short: wait, go on (≤ Resumes)
//	   │       ├ 408, 425, 429, 5xx: wait, go on (≤ Resumes)
//	   │       ├ expired: Refresh, go on (≤ Refreshes)
//	   │       ├ forbidden: Refresh once; once more without Range
//	   │       └ 412, other ETag, size or sum: Refresh, start over, once
//	   └───────┘
func (c *Client) Download(ctx context.Context, d Download) error {
	limit := d.MaxBytes
	if limit <= 0 {
		limit = c.config.MaxInputBytes
	}
	t := &transfer{c: c, d: d, clip: d.Clip, limit: limit, log: c.log.With(slog.String("clip", d.Clip.ID))}
	err := t.run(ctx)
	if closeErr := t.close(); err == nil && closeErr != nil {
		err = localFault(closeErr)
	}
	if err != nil {
		_ = os.Remove(d.Path)
		return fmt.Errorf("clip %s: %w", d.Clip.ID, err)
	}
	return nil
}

// CheckSizes returns a permanent protocol.CodeInputTooLarge fault if the declared sizes of the clips are more than is
// allowed for one analysis, before anything is fetched.
func (c *Client) CheckSizes(clips []protocol.ClaimClip) error {
	left := c.config.MaxInputBytes
	for _, clip := range clips {
		if clip.Size == nil {
			continue
		}
		if *clip.Size > left {
			return tooLarge(c.config.MaxInputBytes)
		}
		left -= *clip.Size
	}
	return nil
}

// outcome is why an attempt did not complete the download; nil means that it did.
type outcome struct {
	verdict verdict
	// reason is a metric's label, what a few words for people.
	reason, what string
	asked        time.Duration
	cause        error
}

func (t *transfer) run(ctx context.Context) error {
	if err := t.prepare(); err != nil {
		return err
	}
	for {
		out, err := t.attempt(ctx)
		if stop := stopped(ctx, "download"); stop != nil {
			return stop
		}
		if out == nil && err == nil {
			out, err = t.verify()
		}
		if err != nil || out == nil {
			return err
		}
		if err := t.recover(ctx, out); err != nil {
			return err
		}
	}
}

// prepare checks the clip's declaration and opens the file anew.
func (t *transfer) prepare() error {
	var err error
	if t.url, err = t.c.storage.check(t.clip.URL); err != nil {
		return err
	}
	if t.clip.Size != nil {
		if err := t.checkRoom(*t.clip.Size); err != nil {
			return err
		}
	}
	if t.file == nil {
		return t.rewind()
	}
	return nil
}

// checkRoom refuses a size that the limit or the disk does not allow.
func (t *transfer) checkRoom(size int64) error {
	if size > t.limit {
		return tooLarge(t.limit)
	}
	free, known := freeDisk(filepath.Dir(t.d.Path))
	if needed := float64(size-t.offset) + float64(size)*diskReserve; known && needed > float64(free) {
		return protocol.NewRetryableFault(protocol.CodeDiskFull,
			fmt.Sprintf("the disk has not enough room for a clip of %d bytes", size))
	}
	return nil
}

// recover decides how the download goes on after an outcome, or returns the fault that ends it.
func (t *transfer) recover(ctx context.Context, out *outcome) error {
	t.log.InfoContext(ctx, "download goes on", slog.String("reason", out.reason), slog.String("what", out.what), slog.Int64("offset", t.offset))
	t.c.observer.DownloadResumed(out.reason)
	switch out.verdict {
	case verdictRetry:
		return t.resume(ctx, out)
	case verdictRange:
		if err := t.rewind(); err != nil {
			return err
		}
		return t.resume(ctx, out)
	case verdictExpired:
		return t.refresh(ctx, out)
	case verdictForbidden:
		return t.forbidden(ctx, out)
	case verdictChanged:
		return t.changed(ctx, out)
	case verdictMissing:
		return protocol.NewFault(protocol.CodeInputMissing, "the stored object does not exist: "+out.what)
	default:
		return protocol.NewRetryableFault(protocol.CodeInputUnreachable, out.what)
	}
}

func (t *transfer) resume(ctx context.Context, out *outcome) error {
	t.resumes++
	if t.resumes > t.c.limits.Resumes {
		return protocol.NewRetryableFault(protocol.CodeInputUnreachable,
			fmt.Sprintf("storage could not be read to the end after %d resumptions: %s", t.c.limits.Resumes, out.what)).WithCause(out.cause)
	}
	limits := t.c.limits
	wait := waitAfter(out.asked, t.resumes-1, limits.BackoffBase, limits.BackoffCap)
	if outlasts(ctx, wait) || !sleep(ctx, wait) {
		return cmp.Or(stopped(ctx, "download"), error(protocol.NewRetryableFault(protocol.CodeInputUnreachable,
			"no time is left to read storage again: "+out.what).WithCause(out.cause)))
	}
	return nil
}

// refresh gets a fresh URL. Bytes that are here already stay if the fresh claim speaks of the same object.
func (t *transfer) refresh(ctx context.Context, out *outcome) error {
	t.refreshes++
	if t.d.Refresh == nil || t.refreshes > t.c.limits.Refreshes {
		return protocol.NewRetryableFault(protocol.CodeInputForbidden,
			fmt.Sprintf("storage refused the URL, also after %d fresh ones: %s", t.refreshes-1, out.what)).WithCause(out.cause)
	}
	fresh, err := t.d.Refresh(ctx)
	if err != nil {
		return fmt.Errorf("redeem again: %w", err)
	}
	same := sameTag(fresh.ETag, t.etag) && (fresh.SHA256 == t.clip.SHA256) && sameSize(fresh.Size, t.clip.Size)
	t.clip = fresh
	if err := t.prepare(); err != nil {
		return err
	}
	if !same {
		return t.rewind()
	}
	return nil
}

func sameSize(a, b *int64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// forbidden asks for one fresh URL, then drops Range, which some signatures do not allow, and then gives up.
func (t *transfer) forbidden(ctx context.Context, out *outcome) error {
	switch {
	case !t.triedFresh && t.d.Refresh != nil:
		t.triedFresh = true
		return t.refresh(ctx, out)
	case t.offset > 0 && !t.noRange:
		t.noRange = true
		return t.rewind()
	default:
		return protocol.NewRetryableFault(protocol.CodeInputForbidden, "storage refused the URL: "+out.what)
	}
}

// changed starts over once with a fresh claim: a permanent verdict on a clip deserves a second look.
func (t *transfer) changed(ctx context.Context, out *outcome) error {
	if t.startedOver || t.d.Refresh == nil {
		return protocol.NewFault(protocol.CodeInputMismatch,
			"the stored object is not the one that the claim describes: "+out.what)
	}
	t.startedOver = true
	if err := t.refresh(ctx, out); err != nil {
		return err
	}
	return t.rewind()
}

// outcomeOf classifies an error of the network. A dial that was refused by the guard is final.
func outcomeOf(err error) (*outcome, error) {
	if errors.Is(err, errAddress) {
		return nil, protocol.NewFault(protocol.CodeHostNotAllowed,
			"the storage URL is not allowed: its host resolves to an internal address").WithCause(err)
	}
	reason := "network"
	if errors.Is(err, errIdle) {
		reason = "idle"
	}
	return &outcome{verdict: verdictRetry, reason: reason, what: networkReason(err), cause: err}, nil
}

// outcomeOfStatus classifies an answer that is no 200 or 206.
func outcomeOfStatus(response *http.Response, limit time.Duration) *outcome {
	body, _ := readAll(response.Body, maxErrorBytes) // what can't be read is as good as nothing
	e := parseStorageError(body)
	out := &outcome{verdict: judge(response.StatusCode, e), reason: "status"}
	out.what = fmt.Sprintf("status %d", response.StatusCode)
	if code := e.knownCode(); code != "" {
		out.what += " " + code
	}
	switch out.verdict {
	case verdictRetry:
		out.asked = retryAfter(response.Header, time.Now(), limit)
	case verdictExpired:
		out.reason = "refresh"
	case verdictChanged:
		out.reason = "changed"
	case verdictRedirect:
		out.what = fmt.Sprintf("storage answered with a redirect (%d), which is not followed", response.StatusCode)
	}
	return out
}
