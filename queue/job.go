package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Job is a job as stored when it was read or taken.
type Job struct {
	ID   string
	Name string
	// Data is the payload as its producer wrote it, normally JSON.
	Data json.RawMessage
	Opts JobOptions

	// AttemptsMade is how many attempts have ended before this one. AttemptsStarted counts every start, this one included, also those
	// that cost no attempt. StalledCount is how often the job was found without a worker.
	AttemptsMade, AttemptsStarted, StalledCount int

	Timestamp   time.Time
	ProcessedOn time.Time     // start of the last attempt; zero: never
	FinishedOn  time.Time     // zero: not finished
	Delay       time.Duration // that it was last delayed by; 0 once it is due
	Priority    int
	ProcessedBy string // name of the last worker, if it has one

	Progress     json.RawMessage // nil: none reported
	ReturnValue  json.RawMessage // nil: not completed
	FailedReason string          // of the last failed attempt
	Stacktrace   []string        // one entry per failed attempt, oldest first

	// DeferredFailure is set by whoever decided that the job must fail (it stalled too often, a child failed): a worker fails it with
	// this reason without running its handler.
	DeferredFailure string
	// SchedulerID is the job scheduler that made the job, if one did.
	SchedulerID string
	// DeduplicationID is set if the job was added with one.
	DeduplicationID string
	// ParentKey is the key of the parent's hash, "" for none.
	ParentKey string

	rawOpts string
	desk    *desk
}

// desk is what a Job needs to write to its own keys.
type desk struct {
	line    *line
	scripts *scripts
	keys    keys
	// token is that of the running attempt, "" for a job that was only read; hold is what we have of it, nil for such a job.
	token string
	hold  *hold
}

// UpdateProgress stores and announces how far the job is; any value that JSON can hold. A handler whose lock is lost gets ErrLockLost and
// nothing is written. It may be called from several goroutines, like Log.
func (j *Job) UpdateProgress(ctx context.Context, progress any) error {
	text, err := encodeJSON(progress)
	if err != nil {
		return fmt.Errorf("update progress of job %s: %w", j.ID, err)
	}

	if err := j.writable(); err != nil {
		return err
	}

	if _, err := j.desk.scripts.progress.code(ctx, j.desk.line, j.desk.keys, j.ID, j.ID, text, j.desk.token); err != nil {
		return fmt.Errorf("update progress of job %s: %w", j.ID, err)
	}

	return nil
}

// Log adds a row to the job's log. Like UpdateProgress it writes nothing once the lock is lost.
func (j *Job) Log(ctx context.Context, row string) error {
	if err := j.writable(); err != nil {
		return err
	}

	_, err := j.desk.scripts.log.code(ctx, j.desk.line, j.desk.keys, j.ID, j.ID, row, j.Opts.KeepLogs, j.desk.token)
	if err != nil {
		return fmt.Errorf("log to job %s: %w", j.ID, err)
	}

	return nil
}

func (j *Job) writable() error {
	switch {
	case j.desk == nil:
		return fmt.Errorf("job %s: %w", j.ID, ErrClosed)
	case j.desk.hold != nil && j.desk.hold.isLost():
		return fmt.Errorf("job %s: %w", j.ID, ErrLockLost)
	}

	return nil
}

// LastAttempt reports whether an ordinary error of this attempt is final.
func (j *Job) LastAttempt() bool { return j.AttemptsMade+1 >= j.Opts.Attempts }

// decodeJob builds a job from the fields of its hash. Fields that can't be read are left zero, but for options that are no JSON: with
// those nobody knows how to treat the job.
func decodeJob(id string, h map[string]string) (*Job, error) {
	j := &Job{
		ID: id, Name: h["name"], Data: json.RawMessage(h["data"]), Delay: duration(number(h["delay"])), Priority: count(h["priority"]),
		AttemptsMade:    count(cmp.Or(h["atm"], h["attemptsMade"])),
		AttemptsStarted: count(h["ats"]), StalledCount: count(h["stc"]), ProcessedBy: h["pb"],
		Timestamp: moment(h["timestamp"]), ProcessedOn: moment(h["processedOn"]), FinishedOn: moment(h["finishedOn"]),
		Progress: optionalJSON(h, "progress"), ReturnValue: optionalJSON(h, "returnvalue"),
		FailedReason: h["failedReason"], DeferredFailure: h["defa"], SchedulerID: h["rjk"], DeduplicationID: h["deid"],
		ParentKey: h["parentKey"],
	}

	if text, ok := h["stacktrace"]; ok && json.Unmarshal([]byte(text), &j.Stacktrace) != nil {
		j.Stacktrace = nil // half decoded
	}

	return j, j.readOptions(h["opts"])
}

func (j *Job) readOptions(text string) (err error) {
	j.rawOpts = cmp.Or(text, "{}")

	if j.Opts, err = decodeOptions(j.rawOpts); err != nil {
		return fmt.Errorf("job %s: %w", j.ID, err)
	}

	return nil
}

func optionalJSON(h map[string]string, field string) json.RawMessage {
	text, ok := h[field]
	if !ok {
		return nil
	}

	return json.RawMessage(text)
}

// number reads a stored number, which may be a fraction.
func number(s string) float64 {
	if s == "" {
		return 0
	}

	if n, ok := digits(s); ok {
		return float64(n)
	}

	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(f) {
		return 0
	}

	return f
}

// digits reads what nearly all stored numbers are: up to 15 digits and nothing else.
func digits(s string) (n int64, ok bool) {
	if len(s) > 15 {
		return 0, false
	}

	for _, d := range []byte(s) {
		if d < '0' || d > '9' {
			return 0, false
		}

		n = 10*n + int64(d-'0')
	}

	return n, true
}

func count(s string) int { return clampInt(number(s)) }

func moment(s string) time.Time {
	ms := number(s)
	if ms == 0 {
		return time.Time{}
	}

	return fromMillis(ms)
}

// pairs turns a flat list of fields and values into a map.
func pairs(flat []string) map[string]string {
	m := make(map[string]string, len(flat)/2)

	for i := 0; i+1 < len(flat); i += 2 {
		m[flat[i]] = flat[i+1]
	}

	return m
}
