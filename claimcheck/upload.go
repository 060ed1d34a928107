package claimcheck

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"

	"github.com/posefleet/posefleet/protocol"
)

// Upload says what to store and where.
type Upload struct {
	// Target is the control plane's answer. Its headers are sent verbatim.
	Target protocol.ArtifactAnswer
	// Path is the file, Size its exact length in bytes.
	Path string
	Size int64
	// ContentType is sent unless Target.Headers has one.
	ContentType string
	// Refresh asks for a fresh presigned PUT of the same bytes. Its errors end the upload as they are. Without it an
	// expired URL is final.
	Refresh func(ctx context.Context) (protocol.ArtifactAnswer, error)
}

// expectContinueBytes is from which size on the server is asked before the body is sent: a refusal that arrives
// while the body is still on its way is often lost with the connection.
const expectContinueBytes = 64 << 10

// Upload puts the artifact with the presigned URL, as often as needed: the same bytes to the same key. A failure is,
// or wraps, a *protocol.Fault; if ctx ended it wraps ctx's cause.
func (c *Client) Upload(ctx context.Context, up Upload) error {
	u := &upload{c: c, Upload: up}
	if err := u.run(ctx); err != nil {
		return fmt.Errorf("artifact: %w", err)
	}
	return nil
}

type upload struct {
	Upload
	c                *Client
	tries, refreshes int
	triedFresh       bool
}

func (u *upload) run(ctx context.Context) error {
	for {
		out, err := u.attempt(ctx)
		if stop := stopped(ctx, "upload"); stop != nil && (out != nil || err != nil) {
			return stop
		}
		if err != nil || out == nil {
			return err
		}
		if err := u.recover(ctx, out); err != nil {
			return err
		}
	}
}

// attempt does one PUT. It returns nil, nil when the bytes are stored.
func (u *upload) attempt(ctx context.Context) (*outcome, error) {
	target, err := u.c.storage.check(u.Target.URL)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(u.Path)
	if err != nil {
		return nil, localFault(err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Size() != u.Size {
		return nil, localFault(fmt.Errorf("the artifact's size is not %d bytes: %w", u.Size, err))
	}
	ctx, dog := newWatchdog(ctx, u.c.limits.IdleTimeout, u.c.limits.MinRate)
	defer dog.stop()
	request, err := u.request(ctx, target, meter{file, dog.progress})
	if err != nil {
		return nil, err
	}
	response, err := u.c.send(request, u.c.storage.trusted(target))
	if err != nil {
		return outcomeOf(orIdle(ctx, err))
	}
	defer discard(response.Body)
	if response.StatusCode/100 == 2 {
		return nil, nil
	}
	return outcomeOfStatus(response, u.c.limits.BackoffCap), nil
}

func (u *upload) request(ctx context.Context, target *url.URL, body io.Reader) (*http.Request, error) {
	request := newRequest(ctx, http.MethodPut, target, body)
	request.ContentLength = u.Size
	if u.Size == 0 {
		request.Body = http.NoBody // otherwise net/http takes 0 for "not known" and sends chunks
	}
	if u.ContentType != "" {
		request.Header.Set("Content-Type", u.ContentType)
	}
	if u.Size >= expectContinueBytes {
		request.Header.Set("Expect", "100-continue")
	}
	return request, setHeaders(request, u.Target.Headers)
}

func (u *upload) recover(ctx context.Context, out *outcome) error {
	u.c.log.InfoContext(ctx, "upload is tried again", slog.String("reason", out.reason), slog.String("what", out.what))
	switch out.verdict {
	case verdictRetry:
		return u.again(ctx, out)
	case verdictExpired:
		return u.refresh(ctx, out)
	case verdictForbidden, verdictChanged, verdictMissing:
		if u.triedFresh {
			return u.failed(out)
		}
		u.triedFresh = true
		return u.refresh(ctx, out)
	default:
		return u.failed(out)
	}
}

func (u *upload) again(ctx context.Context, out *outcome) error {
	u.tries++
	limits := u.c.limits
	if u.tries > limits.Resumes {
		return u.failed(out)
	}
	wait := waitAfter(out.asked, u.tries-1, limits.BackoffBase, limits.BackoffCap)
	if outlasts(ctx, wait) {
		return u.failed(out)
	}
	if !sleep(ctx, wait) {
		return stopped(ctx, "upload")
	}
	return nil
}

func (u *upload) refresh(ctx context.Context, out *outcome) error {
	u.refreshes++
	if u.Refresh == nil || u.refreshes > u.c.limits.Refreshes {
		return u.failed(out)
	}
	target, err := u.Refresh(ctx)
	if err != nil {
		return fmt.Errorf("ask for a fresh URL: %w", err)
	}
	u.Target = target
	return nil
}

func (u *upload) failed(out *outcome) error {
	return protocol.NewRetryableFault(protocol.CodeUploadFailed, "the artifact could not be stored: "+out.what).
		WithCause(out.cause)
}
