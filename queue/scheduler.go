package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/queue/internal/cron"
)

// ErrSchedulerNotFound says that there is no job scheduler with that id.
var ErrSchedulerNotFound = errors.New("job scheduler not found")

// Repeat says when a job scheduler makes jobs. Exactly one of Every and Pattern is needed.
type Repeat struct {
	// Every is the time between two jobs, in whole milliseconds. The first one is made for now, or for StartDate, or for the next slot
	// if Offset is given.
	Every time.Duration
	// Offset moves the slots of Every away from the multiples of it since 1970.
	Offset time.Duration
	// Pattern is a cron pattern of five or six fields (seconds first), as npm's cron-parser reads it: with names, lists, steps, L, #, H.
	Pattern string
	// HashSeed chooses the values of H in Pattern: the same ones for the same seed; "" chooses anew for each job. It goes with the jobs, as
	// BullMQ 6 passes it on to cron-parser, and is not stored with the scheduler. Major 5 knows no H: its workers end such a schedule.
	HashSeed string
	// TZ is the time zone of Pattern, such as Europe/Berlin; "": that of the process that computes the next time.
	TZ string
	// Limit is how many jobs are made in all; 0: no limit.
	Limit int
	// StartDate and EndDate bound the jobs' times; zero: no bound.
	StartDate, EndDate time.Time
	// Immediately makes the first job of a Pattern run now.
	Immediately bool
}

// Iteration is the job that a scheduler has made for its next time.
type Iteration struct {
	JobID string
	Delay time.Duration
}

// Scheduler is a job scheduler as stored.
type Scheduler struct {
	ID     string
	Repeat Repeat
	// Next is when the pending iteration, the newest one, is due.
	Next time.Time
	// Iterations is how many jobs were made; 0: the scheduler is a repeatable job of an old BullMQ.
	Iterations int
	// Template is what the jobs are made of.
	Template NewJob
}

// UpsertScheduler makes a job scheduler, or changes the one with that id, and adds its first job, or replaces the pending one: the
// scheduler's jobs are made of template (whose name defaults to the id), one at a time: whoever takes one makes the next – a worker of
// this package or Node's. Options of the template may not say when the job runs or what its id is.
func (q *Queue) UpsertScheduler(ctx context.Context, id string, r Repeat, template NewJob) (Iteration, error) {
	now := time.Now()

	template.Opts.underTemplate(q.defaults)

	args, err := upsertArgs(id, r, template, now, inject(ctx, q.telemetry))
	if err != nil {
		return Iteration{}, fmt.Errorf("upsert scheduler %s: %w", id, err)
	}

	reply, err := q.runUpsert(ctx, args)
	if err != nil {
		return Iteration{}, fmt.Errorf("upsert scheduler %s: %w", id, err)
	}

	if code, ok := reply.(int64); ok {
		return Iteration{}, &ScriptError{Code: Code(code), Op: "make iteration of", JobID: id}
	}

	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return Iteration{}, fmt.Errorf("upsert scheduler %s: %w: %T", id, errBadReply, reply)
	}

	job, _ := parts[0].(string)
	delay, _ := parts[1].(int64)

	return Iteration{JobID: job, Delay: time.Duration(delay) * time.Millisecond}, nil
}

// runUpsert tries again when an answer is lost: a second run puts the same iteration in the place of the first one's, or the one after it
// if that has begun.
func (q *Queue) runUpsert(ctx context.Context, args []any) (any, error) {
	pause := newBackoff(20*time.Millisecond, time.Second)

	for try := 1; ; try++ {
		reply, err := q.scripts.upsert.run(ctx, q.client, q.keys, args...)

		again := !isReply(err) || notNow(err)
		if err == nil || !again || try == addTries || !pause.wait(ctx) {
			return reply, err
		}
	}
}

// RemoveScheduler deletes a job scheduler and its pending iteration, if that is not due yet. False if there is none.
func (q *Queue) RemoveScheduler(ctx context.Context, id string) (bool, error) {
	n, err := q.scripts.unplan.code(ctx, q.client, q.keys, id, id)

	return err == nil && n == 0, wrap("remove scheduler "+id, err)
}

// Scheduler reads a job scheduler; ErrSchedulerNotFound if there is none.
func (q *Queue) Scheduler(ctx context.Context, id string) (Scheduler, error) {
	fields, next, err := readSchedule(ctx, q.client, q.keys, id)
	if err != nil {
		return Scheduler{}, err
	}

	if len(fields) == 0 {
		return Scheduler{}, fmt.Errorf("read scheduler %s: %w", id, ErrSchedulerNotFound)
	}

	return decodeScheduler(id, fields, float64(next))
}

// Schedulers lists job schedulers, from the place from on, at most limit of them: those that are due next first.
func (q *Queue) Schedulers(ctx context.Context, from, limit int64) ([]Scheduler, error) {
	if limit <= 0 || from < 0 {
		return nil, nil
	}

	found, err := q.client.get().ZRangeWithScores(ctx, q.keys.of(keyRepeat), from, from+limit-1).Result()
	if err != nil || len(found) == 0 {
		return nil, wrap("list schedulers", err)
	}

	pipe := q.client.get().Pipeline()
	hashes := make([]*redis.MapStringStringCmd, len(found))

	for i, z := range found {
		hashes[i] = pipe.HGetAll(ctx, q.keys.schedule(fmt.Sprint(z.Member)))
	}

	if _, err := pipe.Exec(ctx); err != nil {
		return nil, wrap("list schedulers", err)
	}

	var errs []error

	all := make([]Scheduler, len(found))
	for i, z := range found {
		all[i], err = decodeScheduler(fmt.Sprint(z.Member), hashes[i].Val(), z.Score)
		errs = append(errs, err)
	}

	return all, errors.Join(errs...)
}

// SchedulerCount counts the job schedulers.
func (q *Queue) SchedulerCount(ctx context.Context) (int64, error) {
	n, err := q.client.get().ZCard(ctx, q.keys.of(keyRepeat)).Result()

	return n, wrap("count schedulers", err)
}

// readSchedule reads what is stored of a scheduler and when its pending iteration is due, 0 if there is none.
func readSchedule(ctx context.Context, l *line, k keys, id string) (fields map[string]string, pending int64, err error) {
	pipe := l.get().Pipeline()
	hash := pipe.HGetAll(ctx, k.schedule(id))
	score := pipe.ZScore(ctx, k.of(keyRepeat), id)

	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, 0, fmt.Errorf("read scheduler %s: %w", id, err)
	}

	return hash.Val(), int64(score.Val()), nil
}

func decodeScheduler(id string, h map[string]string, next float64) (Scheduler, error) {
	s := Scheduler{
		ID: id, Next: fromMillis(next), Iterations: count(h["ic"]),
		Repeat: Repeat{
			Every: duration(number(h["every"])), Offset: duration(number(h["offset"])), Pattern: h["pattern"], TZ: h["tz"],
			Limit: count(h["limit"]), StartDate: moment(h["startDate"]), EndDate: moment(h["endDate"]),
		},
		Template: NewJob{Name: h["name"]},
	}

	if data := optionalJSON(h, "data"); data != nil {
		s.Template.Data = data
	}

	var err error
	if s.Template.Opts, err = decodeOptions(cmp.Or(h["opts"], "{}")); err != nil {
		return s, fmt.Errorf("scheduler %s: %w", id, err)
	}

	return s, nil
}

// repeatOptions are the part of an iteration's options that speaks of its schedule.
type repeatOptions struct {
	Every     float64 `json:"every,omitempty"`
	Offset    float64 `json:"offset,omitempty"`
	Pattern   string  `json:"pattern,omitempty"`
	TZ        string  `json:"tz,omitempty"`
	Limit     float64 `json:"limit,omitempty"`
	StartDate int64   `json:"startDate,omitempty"`
	EndDate   int64   `json:"endDate,omitempty"`
	HashSeed  string  `json:"hashSeed,omitempty"`
	Count     float64 `json:"count,omitempty"`
}

// UnmarshalJSON reads dates as numbers of milliseconds or as texts, and passes over what it does not understand.
func (r *repeatOptions) UnmarshalJSON(text []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}

	take := taker(fields)
	*r = repeatOptions{
		Every: take.number("every"), Offset: take.number("offset"), Pattern: take.text("pattern"), TZ: take.text("tz"),
		Limit: take.number("limit"), StartDate: take.date("startDate"), EndDate: take.date("endDate"), Count: take.number("count"),
		HashSeed: take.text("hashSeed"),
	}

	return nil
}

func (t taker) date(name string) int64 {
	var text string
	if raw, ok := t[name]; ok && json.Unmarshal(raw, &text) == nil {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return 0
		}

		return at.UnixMilli()
	}

	return int64(t.number(name))
}

// nextTime is when the pattern fires after now; 0 if it does not any more.
func (r *repeatOptions) nextTime(now int64) (int64, error) {
	schedule, err := cron.Parse(r.Pattern, r.HashSeed)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrBadOptions, err)
	}

	zone, err := cron.Zone(r.TZ)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrBadOptions, err)
	}

	next, ok := schedule.Next(time.UnixMilli(max(now, r.StartDate)), zone)
	if !ok || r.EndDate > 0 && next.UnixMilli() > r.EndDate {
		return 0, nil
	}

	return next.UnixMilli(), nil
}

// upsertArgs is ARGV of upsert.lua.
func upsertArgs(id string, r Repeat, template NewJob, now time.Time, trace propagation) ([]any, error) {
	if err := errors.Join(r.validate(id, now), validateTemplate(&template.Opts)); err != nil {
		return nil, err
	}

	w := repeatOptions{
		Every: toMillis(r.Every), Offset: toMillis(r.Offset), Pattern: r.Pattern, TZ: r.TZ, Limit: float64(r.Limit),
		HashSeed: r.HashSeed, StartDate: unixMillis(r.StartDate), EndDate: unixMillis(r.EndDate), Count: 1,
	}

	var next int64

	if r.Pattern != "" {
		var err error
		if next, err = w.firstTime(r.Immediately, now.UnixMilli()); err != nil {
			return nil, err
		}
	}

	template.Name = cmp.Or(template.Name, id)

	a, err := encodeAddition(template, now)
	if err != nil {
		return nil, err
	}

	stored, head, err := iterationOptions(id, &w, a.opts, now.UnixMilli(), trace)
	if err != nil {
		return nil, err
	}

	return []any{
		id, now.UnixMilli(), optionalNumber(next), optionalNumber(int64(w.Every)), optionalNumber(int64(w.Offset)),
		optionalNumber(w.StartDate), optionalNumber(w.EndDate), optionalNumber(int64(r.Limit)), r.TZ, r.Pattern,
		a.name, a.data, stored, head, template.Opts.Priority, flag(template.Opts.LIFO),
	}, nil
}

func (r *repeatOptions) firstTime(immediately bool, now int64) (int64, error) {
	next, err := r.nextTime(now)

	switch {
	case err != nil:
		return 0, err
	case immediately:
		return now, nil
	case next == 0:
		return 0, fmt.Errorf("%w: pattern %q does not fire before its end date, or never", ErrBadOptions, r.Pattern)
	}

	return next, nil
}

// iterationOptions are the template's options as the scheduler stores them, "" if there are none, and those of the iteration, cut off
// in the middle of the job's id, which the script chooses. The trace is the iteration's only; those after it inherit it from each other.
func iterationOptions(id string, r *repeatOptions, template []byte, now int64, trace propagation) (stored, head string, err error) {
	var opts map[string]any
	if err := json.Unmarshal(template, &opts); err != nil {
		return "", "", err
	}

	if opts["attempts"] == float64(0) {
		delete(opts, "attempts")
	}

	if len(opts) > 0 {
		text, err := encodeJSON(opts)
		if err != nil {
			return "", "", err
		}

		stored = string(text)
	}

	opts["repeat"], opts["repeatJobKey"], opts["timestamp"] = r, id, now
	trace.intoStored(opts)

	text, err := encodeJSON(opts)
	if err != nil {
		return "", "", err
	}

	job, err := encodeJSON("repeat:" + id + ":")
	if err != nil {
		return "", "", err
	}

	return stored, strings.TrimSuffix(string(text), "}") + `,"jobId":` + strings.TrimSuffix(string(job), `"`), nil
}

func (r *Repeat) validate(id string, now time.Time) error {
	var errs []error

	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrBadOptions}, args...)...))
	}

	if id == "" {
		bad("a scheduler needs an id")
	}

	if (r.Every != 0) == (r.Pattern != "") {
		bad("a scheduler needs either every or a pattern")
	}

	if r.Every != 0 && (r.Every < time.Millisecond || r.Every%time.Millisecond != 0) {
		bad("every has to be whole milliseconds, at least one")
	}

	if r.Offset < 0 || r.Offset%time.Millisecond != 0 || r.Pattern != "" && r.Offset != 0 {
		bad("the offset has to be whole milliseconds of every, not negative")
	}

	if r.HashSeed != "" && r.Pattern == "" {
		bad("a hash seed is for a pattern")
	}

	if r.Limit < 0 {
		bad("the limit can't be negative")
	}

	if r.Immediately && !r.StartDate.IsZero() {
		bad("a scheduler starts either immediately or at its start date")
	}

	if !r.EndDate.IsZero() && !r.EndDate.After(now) {
		bad("the end date is over")
	}

	return errors.Join(errs...)
}

// validateTemplate refuses options that the scheduler itself decides about.
func validateTemplate(o *JobOptions) error {
	if o.JobID != "" || o.Delay != 0 || !o.Timestamp.IsZero() || o.Parent != nil || o.Deduplication != nil {
		return fmt.Errorf("%w: id, delay, timestamp, parent and deduplication of a scheduler's jobs can't be chosen", ErrBadOptions)
	}

	return o.validate()
}

func unixMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}

	return t.UnixMilli()
}

// optionalNumber is "" for 0, which scripts take for absent.
func optionalNumber(n int64) string {
	if n == 0 {
		return ""
	}

	return strconv.FormatInt(n, 10)
}
