package queue

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	exchangeCalls = 2 // under way at once: Redis works on one while we make the next
	// jobs and bytes of results of one call, so that no script holds Redis up for long
	exchangeMost  = 32
	exchangeBytes = 1 << 20
)

// errNotSent: the call that would have carried this outcome was not made.
var errNotSent = errors.New("not sent")

// exchange writes final outcomes, those of many jobs in one call, and takes the next jobs in the same step. It has no goroutine: who
// brings an outcome while fewer than exchangeCalls are under way makes a call with all outcomes that wait, and gives the task to one of
// those that have come meanwhile when it is over.
//
// A worker whose capacity is its own takes as many jobs as it ends: each slot goes on with another job. Where the capacity is shared
// with others nothing is taken here: the slot goes back to the gate first, so that the others have their chance.
type exchange struct {
	w *Worker

	mu     sync.Mutex
	queued []*final
	calls  int // under way
}

// final is the final outcome of a job on its way into Redis.
type final struct {
	h      *hold
	now    int64 // ms; 0: not sent yet
	value  []byte
	rule   string // how it ends, as finish.lua reads it; "" = the common way
	fields []any  // of the job's hash: name, value, …

	wake chan struct{} // the outcome is written or refused, or: make the next call; nil: it has never waited
	lead bool          // make the next call
	err  error
}

// final is a final outcome of the hold. No fields and no rule means the short form.
func (h *hold) final(target string, value []byte, keep *Keep, fields []any) *final {
	h.ended = final{h: h, value: value, fields: fields}
	e := &h.ended

	if target == keyCompleted && keep.all() && len(fields) == 0 {
		if !h.asAdded {
			e.rule = "-"
		}

		return e
	}

	count, age, limit := keep.args()
	e.rule = strings.Join([]string{
		target[:1], orDash(count), orDash(age), orDash(limit), strconv.Itoa(h.job.Opts.Attempts), strconv.Itoa(len(fields)),
	}, " ")

	return e
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}

	return s
}

// write sends the outcome once. Whether it may be sent again after an error is the caller's decision. If the hold's slot may go on, the
// job that was taken in its place is h.next.
func (x *exchange) write(e *final) error {
	e.err, e.lead = nil, false

	x.mu.Lock()
	wait := x.calls == exchangeCalls

	if wait {
		if e.wake == nil {
			e.wake = make(chan struct{}, 1)
		}

		x.queued = append(x.queued, e)
	} else {
		x.calls++
	}
	x.mu.Unlock()

	if wait {
		if <-e.wake; !e.lead {
			return e.err
		}
	}

	x.turn(e)

	return e.err
}

// turn is one call, made by the goroutine of an outcome that goes with it.
func (x *exchange) turn(own *final) {
	runtime.Gosched() // handlers that are about to end come along

	batch := x.collect(own)
	err := x.call(batch)

	for _, e := range batch {
		if e != own {
			e.wake <- struct{}{}
		}
	}

	x.pass(err)
}

// pass ends a call: an outcome that waits makes the next one.
func (x *exchange) pass(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()

	if err != nil && !isReply(err) {
		// A Redis that does not answer would cost each further call a timeout, one after the other.
		for _, e := range x.queued {
			e.err = fmt.Errorf("finish: %w: %w", errNotSent, err)
			e.wake <- struct{}{}
		}

		x.queued = nil
	}

	if len(x.queued) == 0 {
		x.calls--
		return
	}

	next := x.queued[0]
	x.queued = x.queued[1:]
	next.lead = true
	next.wake <- struct{}{}
}

func (x *exchange) collect(own *final) []*final {
	x.mu.Lock()
	defer x.mu.Unlock()

	n, size := 0, len(own.value)
	for n < min(len(x.queued), exchangeMost-1) && size+len(x.queued[n].value) <= exchangeBytes {
		size += len(x.queued[n].value)
		n++
	}

	batch := append(make([]*final, 0, n+1), own)
	batch = append(batch, x.queued[:n]...)
	x.queued = x.queued[n:]

	return batch
}

// call writes a batch and hands out what was taken. Its error, which all of the batch have then, says that it is not known what was
// written, or that Redis refused the call.
func (x *exchange) call(batch []*final) error {
	w, sent := x.w, time.Now()
	places, token := x.places(batch), ""

	// As finish.lua wants them, and as they are in the active list.
	slices.SortStableFunc(batch, func(a, b *final) int {
		return cmp.Or(cmp.Compare(min(len(a.rule), 1), min(len(b.rule), 1)), cmp.Compare(a.h.order, b.h.order))
	})

	if places > 0 {
		token = w.newToken()
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].h.ctx), callTimeout)
	defer cancel()

	reply, err := w.scripts.finish.run(ctx, w.client, w.keys, x.args(batch, places, token, sent)...)

	var answers []any

	var got *taken

	if err == nil {
		answers, got, err = parseFinished(reply, len(batch))
	}

	if err != nil {
		if places > 0 && uncertain(err) {
			w.doubts.add(token)
		}

		for _, e := range batch {
			e.err = err
		}

		return err
	}

	x.deal(batch, answers, got, token, sent)

	return nil
}

// places is how many of the batch's slots may go on with another job.
func (x *exchange) places(batch []*final) int {
	w := x.w
	if !batch[0].h.chained || w.stopped.Load() || w.brake.on() || w.doubts.any() {
		return 0
	}

	return max(len(batch)-w.slots.surplus(), 0)
}

func (x *exchange) args(batch []*final, places int, token string, now time.Time) []any {
	w := x.w
	limitMax, limitDuration := w.opts.Limiter.args()

	args := make([]any, 0, 8+4*len(batch))
	args = append(args, w.opts.MetricsPoints, places, now.UnixMilli(), token, w.opts.LockDuration.Milliseconds(), w.opts.WorkerName,
		limitMax, limitDuration)

	for _, e := range batch {
		if e.now == 0 {
			e.now = now.UnixMilli()
		}
	}

	return appendFinals(args, batch)
}

// appendFinals appends what finish.lua wants to know of the jobs: those that end in the common way by runs, then the others.
func appendFinals(args []any, batch []*final) []any {
	for len(batch) > 0 && batch[0].rule == "" {
		n := 1
		for n < len(batch) && batch[n].rule == "" && batch[n].alike(batch[0]) && bytes.Equal(batch[n].value, batch[0].value) {
			n++
		}

		args = append(args, "=", batch[0].h.token, batch[0].now, batch[0].value, n)
		for _, e := range batch[:n] {
			args = append(args, &e.h.job.ID)
		}

		batch = batch[n:]
	}

	for i, e := range batch {
		if i == 0 || !e.alike(batch[i-1]) {
			args = append(args, "@", e.h.token, e.now)
		}

		args = append(args, e.rule, &e.h.job.ID, e.value)
		args = append(args, e.fields...)
	}

	return args
}

// alike: they have token and time in common.
func (e *final) alike(other *final) bool { return e.h.token == other.h.token && e.now == other.now }

// parseFinished reads the answer of finish.lua to n jobs. No answers: all have ended.
func parseFinished(reply any, n int) (answers []any, got *taken, err error) {
	parts, _ := reply.([]any)
	if len(parts) > 0 {
		answers, _ = parts[0].([]any)
	}

	if len(answers) != n && (len(parts) == 0 || len(answers) != 0) {
		return nil, nil, fmt.Errorf("finish: %w: %T", errBadReply, reply)
	}

	if len(parts) > 1 {
		got, err = parseTaken(parts[1])
	}

	return answers, got, err
}

// deal gives each of the batch its answer and, as far as they go, one of the jobs that were taken.
func (x *exchange) deal(batch []*final, answers []any, got *taken, token string, sent time.Time) {
	var next []claimed

	if got != nil {
		next = x.w.claimsOf(got.jobs, token, sent)

		x.w.noteTake(got)

		if got.end == tookHeld {
			x.w.heldBack.Store(true)
		}
	}

	for i, e := range batch {
		if len(answers) > 0 {
			if e.err = e.answer(answers[i]); e.err != nil {
				continue
			}
		}

		if len(next) > 0 {
			e.h.next = &next[0]
			next = next[1:]
		}
	}
}

// answer reads one answer of finish.lua.
func (e *final) answer(answer any) error {
	switch v := answer.(type) {
	case int64:
		if v < 0 {
			return &ScriptError{Code: Code(v), Op: "finish", JobID: e.h.job.ID}
		}

		return nil
	case []any:
		if len(v) == 2 {
			return fmt.Errorf("finish job %s: %w", e.h.job.ID, words(v[1]))
		}
	}

	return fmt.Errorf("finish job %s: %w: %T", e.h.job.ID, errBadReply, answer)
}
