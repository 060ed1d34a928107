package queuecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/posefleet/posefleet/queue"
)

// ErrNotInTime says that a job had not finished when the time was over.
var ErrNotInTime = errors.New("not finished in time")

// awaited is one entry of Wait's document.
type awaited struct {
	ID          string          `json:"id"`
	Completed   bool            `json:"completed"`
	ReturnValue json.RawMessage `json:"returnValue,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	err         error
}

// Wait waits until all the jobs have finished, or for so long (0: for ever), and shows what became of them. Jobs that did not complete are
// named in the error.
func (d *Desk) Wait(ctx context.Context, ids []string, timeout time.Duration) error {
	if err := d.Queue.Ping(ctx); err != nil { // later on a lost Redis is waited for
		return err
	}

	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, ErrNotInTime)
		defer cancel()
	}

	done, err := d.waitAll(ctx, ids)
	if err != nil {
		return err
	}

	var faults []error

	for _, a := range done {
		faults = append(faults, a.err)
		if a.err == nil {
			err = errors.Join(err, d.tell("%s completed: %s", oneLine(a.ID), oneLine(string(a.ReturnValue))))
		}
	}

	if d.JSON {
		err = d.document(map[string]any{"jobs": done})
	}

	return errors.Join(append(faults, err)...)
}

func (d *Desk) waitAll(ctx context.Context, ids []string) ([]awaited, error) {
	results, err := queue.NewResults(d.Options)
	if err != nil {
		return nil, err
	}

	reading, stop := context.WithCancel(context.WithoutCancel(ctx))

	var reader, waiters sync.WaitGroup

	reader.Go(func() { _ = results.Run(reading) }) // ends with stop; Wait looks for itself when events fail

	done := make([]awaited, len(ids))
	for i, id := range ids {
		waiters.Go(func() { done[i] = d.await(ctx, results, id) }) // ends with the job, or ctx
	}

	waiters.Wait()
	stop()
	reader.Wait()

	return done, nil
}

func (d *Desk) await(ctx context.Context, results *queue.Results, id string) awaited {
	var value json.RawMessage

	there, err := d.Queue.Exists(ctx, id)
	if err == nil && !there {
		err = queue.ErrJobNotFound
	} else if err == nil {
		value, err = results.Wait(ctx, id)
	}

	a := awaited{ID: id, Completed: err == nil, ReturnValue: rawJSON(value)}

	if failed, ok := errors.AsType[*queue.JobFailedError](err); ok {
		a.Reason = failed.Reason
		a.err = &JobError{ID: id, Reason: "failed: " + oneLine(failed.Reason), err: err}

		return a
	}

	switch {
	case errors.Is(err, queue.ErrJobNotFound):
		a.err = &JobError{ID: id, Reason: "does not exist, or not any more", err: err}
	case err != nil && over(ctx): // whatever it was that had no time left
		a.err = &JobError{ID: id, Reason: "has not finished in time", err: ErrNotInTime}
	case err != nil:
		a.err = fmt.Errorf("job %s: %w", oneLine(id), err)
	}

	if a.err != nil {
		a.Reason = a.err.Error()
	}

	return a
}

// over reports whether the time to wait is over. A connection's deadline may tell so a moment before the context does.
func over(ctx context.Context) bool {
	end, ok := ctx.Deadline()

	return ok && !time.Now().Before(end)
}
