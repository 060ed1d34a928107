package queue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"
)

// wireOptions is JobOptions as stored: long names but for eight short ones. A field is missing unless it was given; only attempts is
// always there.
type wireOptions struct {
	Attempts         int            `json:"attempts"`
	Backoff          *wireBackoff   `json:"backoff,omitempty"`
	Delay            float64        `json:"delay,omitempty"`
	Priority         int            `json:"priority,omitempty"`
	LIFO             bool           `json:"lifo,omitempty"`
	JobID            string         `json:"jobId,omitempty"`
	Timestamp        int64          `json:"timestamp,omitempty"`
	RemoveOnComplete *Keep          `json:"removeOnComplete,omitempty"`
	RemoveOnFail     *Keep          `json:"removeOnFail,omitempty"`
	StackTraceLimit  *int           `json:"stackTraceLimit,omitempty"`
	SizeLimit        int            `json:"sizeLimit,omitempty"`
	Parent           *wireParentRef `json:"parent,omitempty"`
	Deduplication    *wireDedup     `json:"de,omitempty"`
	FailParent       bool           `json:"fpof,omitempty"`
	ContinueParent   bool           `json:"cpof,omitempty"`
	IgnoreDependency bool           `json:"idof,omitempty"`
	RemoveDependency bool           `json:"rdof,omitempty"`
	KeepLogs         int            `json:"kl,omitempty"`
	Telemetry        string         `json:"tm,omitempty"`
	OmitContext      bool           `json:"omc,omitempty"`
}

type wireBackoff struct {
	Type   string  `json:"type"`
	Delay  float64 `json:"delay,omitempty"`
	Jitter float64 `json:"jitter,omitempty"`
}

type wireParentRef struct {
	ID    string `json:"id"`
	Queue string `json:"queue"`
}

type wireDedup struct {
	ID         string  `json:"id"`
	TTL        float64 `json:"ttl,omitempty"`
	Extend     bool    `json:"extend,omitempty"`
	Replace    bool    `json:"replace,omitempty"`
	KeepLast   bool    `json:"keepLastIfActive,omitempty"`
	Reschedule bool    `json:"reschedule,omitempty"`
}

// wireParent is the parent field of a child's hash.
type wireParent struct {
	ID               string `json:"id"`
	QueueKey         string `json:"queueKey"`
	FailParent       bool   `json:"fpof,omitempty"`
	ContinueParent   bool   `json:"cpof,omitempty"`
	IgnoreDependency bool   `json:"idof,omitempty"`
	RemoveDependency bool   `json:"rdof,omitempty"`
}

// encodeOptions is the opts field of a job.
func encodeOptions(o *JobOptions) ([]byte, error) {
	w := wireOptions{
		Attempts: o.Attempts, Delay: toMillis(o.Delay), Priority: o.Priority, LIFO: o.LIFO, JobID: o.JobID,
		RemoveOnComplete: o.RemoveOnComplete, RemoveOnFail: o.RemoveOnFail, StackTraceLimit: o.StackTraceLimit,
		SizeLimit: o.SizeLimit, FailParent: o.FailParentOnFailure, ContinueParent: o.ContinueParentOnFailure,
		IgnoreDependency: o.IgnoreDependencyOnFailure, RemoveDependency: o.RemoveDependencyOnFailure,
		KeepLogs: o.KeepLogs, Telemetry: o.Telemetry, OmitContext: o.OmitContext,
	}
	if b := o.Backoff; b != nil {
		w.Backoff = &wireBackoff{Type: b.Type, Delay: toMillis(b.Delay), Jitter: b.Jitter}
	}

	if p := o.Parent; p != nil {
		w.Parent = &wireParentRef{ID: p.ID, Queue: p.Queue}
	}

	if d := o.Deduplication; d != nil {
		w.Deduplication = &wireDedup{
			ID: d.ID, TTL: toMillis(d.TTL), Extend: d.Extend, Replace: d.Replace, KeepLast: d.KeepLastIfActive, Reschedule: d.Reschedule,
		}
	}

	if !o.Timestamp.IsZero() {
		w.Timestamp = o.Timestamp.UnixMilli()
	}

	if len(o.Extra) == 0 && w == (wireOptions{Attempts: w.Attempts}) {
		return onlyAttempts(w.Attempts), nil
	}

	text, err := encodeJSON(w)
	if err != nil || len(o.Extra) == 0 {
		return text, err
	}

	return withExtra(text, o.Extra)
}

// Most jobs have no options but attempts, which spares them the JSON library.
const onlyAttemptsHead, onlyAttemptsTail = `{"attempts":`, `}`

func onlyAttempts(n int) []byte {
	text := append(make([]byte, 0, len(onlyAttemptsHead)+4), onlyAttemptsHead...)

	return append(strconv.AppendInt(text, int64(n), 10), onlyAttemptsTail...)
}

// readOnlyAttempts reads what onlyAttempts writes.
func readOnlyAttempts(text string) (n int, ok bool) {
	digits, ok := strings.CutPrefix(text, onlyAttemptsHead)
	if !ok {
		return 0, false
	}

	digits, ok = strings.CutSuffix(digits, onlyAttemptsTail)
	if !ok || digits == "" || len(digits) > 9 || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}

	for _, d := range []byte(digits) {
		if d < '0' || d > '9' {
			return 0, false
		}

		n = 10*n + int(d-'0')
	}

	return n, true
}

func withExtra(text []byte, extra map[string]json.RawMessage) ([]byte, error) {
	all := maps.Clone(extra)
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}

	return encodeJSON(all)
}

// decodeOptions reads the opts field. Options of a strange type are passed over, as Node does; only text that is no JSON object at all
// is an error.
func decodeOptions(text string) (JobOptions, error) {
	if n, ok := readOnlyAttempts(text); ok {
		return JobOptions{Attempts: n}, nil
	}

	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return JobOptions{}, fmt.Errorf("decode job options: %w", err)
	}

	take := taker(fields)
	o := JobOptions{
		JobID: take.text("jobId"), Attempts: take.int("attempts"), Backoff: take.backoff(), Delay: take.duration("delay"),
		Priority: take.int("priority"), LIFO: take.flag("lifo"),
		RemoveOnComplete: take.keep("removeOnComplete"), RemoveOnFail: take.keep("removeOnFail"),
		KeepLogs: take.int("kl"), SizeLimit: take.int("sizeLimit"), Telemetry: take.text("tm"), OmitContext: take.flag("omc"),
		FailParentOnFailure: take.flag("fpof"), ContinueParentOnFailure: take.flag("cpof"),
		IgnoreDependencyOnFailure: take.flag("idof"), RemoveDependencyOnFailure: take.flag("rdof"),
	}

	if _, ok := fields["stackTraceLimit"]; ok {
		o.StackTraceLimit = new(take.int("stackTraceLimit"))
	}

	if at := take.number("timestamp"); at != 0 {
		o.Timestamp = fromMillis(at)
	}

	var parent wireParentRef
	if take.into("parent", &parent) {
		o.Parent = (*ParentRef)(&parent)
	}

	var d wireDedup
	if take.into("de", &d) {
		o.Deduplication = &Deduplication{
			ID: d.ID, TTL: duration(d.TTL), Extend: d.Extend, Replace: d.Replace, KeepLastIfActive: d.KeepLast, Reschedule: d.Reschedule,
		}
	}

	if len(fields) > 0 {
		o.Extra = fields
	}

	return o, nil
}

// taker reads known options and takes them away, so that the unknown ones are left.
type taker map[string]json.RawMessage

// into reports whether the option was there and of the right type.
func (t taker) into(name string, to any) bool {
	raw, ok := t[name]
	delete(t, name)

	return ok && string(raw) != "null" && json.Unmarshal(raw, to) == nil
}

func (t taker) text(name string) (s string) { t.into(name, &s); return s }

func (t taker) flag(name string) (b bool) { t.into(name, &b); return b }

func (t taker) number(name string) (f float64) { t.into(name, &f); return f }

func (t taker) int(name string) int { return clampInt(t.number(name)) }

func (t taker) duration(name string) time.Duration { return duration(t.number(name)) }

func (t taker) keep(name string) *Keep {
	k := new(Keep)
	if !t.into(name, k) {
		return nil
	}

	return k
}

// backoff is an object, or in old jobs a plain number of milliseconds.
func (t taker) backoff() *Backoff {
	raw, ok := t["backoff"]
	delete(t, "backoff")

	if !ok {
		return nil
	}

	var ms float64
	if json.Unmarshal(raw, &ms) == nil && ms > 0 {
		return &Backoff{Type: "fixed", Delay: duration(ms)}
	}

	var w wireBackoff
	if json.Unmarshal(raw, &w) != nil || w.Type == "" {
		return nil
	}

	return &Backoff{Type: w.Type, Delay: duration(w.Delay), Jitter: w.Jitter}
}

// wireKeep is the object form of a keep rule.
type wireKeep struct {
	Age   *float64 `json:"age,omitempty"`
	Count *float64 `json:"count,omitempty"`
	Limit *float64 `json:"limit,omitempty"`
}

// MarshalJSON writes the shortest of BullMQ's forms: true (remove now), false (keep all), a number (keep so many) or an object.
func (k Keep) MarshalJSON() ([]byte, error) {
	switch {
	case k.Now:
		return []byte("true"), nil
	case k.Age == 0 && !k.ageZero && k.Count == 0:
		return []byte("false"), nil
	case k.Age == 0 && !k.ageZero && k.Limit == 0:
		return strconv.AppendInt(nil, int64(k.Count), 10), nil
	}

	var w wireKeep
	if k.Age > 0 || k.ageZero {
		w.Age = new(math.Floor(k.Age.Seconds()))
	}

	if k.Count > 0 {
		w.Count = new(float64(k.Count))
	}

	if k.Limit > 0 {
		w.Limit = new(float64(k.Limit))
	}

	return json.Marshal(w)
}

// UnmarshalJSON reads each of BullMQ's forms.
func (k *Keep) UnmarshalJSON(text []byte) error {
	*k = Keep{}

	var now bool
	if json.Unmarshal(text, &now) == nil {
		k.Now = now

		return nil
	}

	var w wireKeep
	if err := json.Unmarshal(text, &w); err != nil {
		var n float64
		if err := json.Unmarshal(text, &n); err != nil {
			return fmt.Errorf("decode keep rule: %w", err)
		}

		w.Count = &n
	}

	if w.Count != nil {
		k.Now = *w.Count == 0
		k.Count = max(clampInt(*w.Count), 0)
	}

	if w.Age != nil {
		k.Age = max(duration(*w.Age*1000), 0)
		k.ageZero = k.Age == 0
	}

	if w.Limit != nil {
		k.Limit = max(clampInt(*w.Limit), 0)
	}

	return nil
}

// all: everything is kept.
func (k *Keep) all() bool {
	return k == nil || !k.Now && k.Count <= 0 && k.Age <= 0 && !k.ageZero
}

// args are count, age and limit of the finish script; "" means no such rule.
func (k *Keep) args() (count, age, limit string) {
	switch {
	case k == nil:
		return "", "", ""
	case k.Now:
		return "0", "", ""
	}

	if k.Count > 0 {
		count = strconv.Itoa(k.Count)
	}

	if k.Age > 0 || k.ageZero {
		age = strconv.FormatFloat(math.Floor(k.Age.Seconds()), 'f', -1, 64)
	}

	if k.Limit > 0 {
		limit = strconv.Itoa(k.Limit)
	}

	return count, age, limit
}

// encodeJSON writes like JSON.stringify: <, > and & stay as they are. A json.RawMessage passes byte for byte.
func encodeJSON(v any) ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}

	if raw, ok := v.(json.RawMessage); ok && raw != nil {
		if !json.Valid(raw) {
			return nil, fmt.Errorf("encode: %w", errInvalidJSON)
		}

		return raw, nil
	}

	var b bytes.Buffer

	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)

	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}

	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// toMillis keeps whole milliseconds exact, however many they are.
func toMillis(d time.Duration) float64 {
	return float64(d/time.Millisecond) + float64(d%time.Millisecond)/float64(time.Millisecond)
}

// duration of stored milliseconds, which may be a fraction, absurdly long or not a number.
func duration(ms float64) time.Duration {
	const most = float64(math.MaxInt64 / int64(time.Millisecond))

	switch {
	case math.IsNaN(ms):
		return 0
	case ms >= most:
		return math.MaxInt64
	case ms <= -most:
		return math.MinInt64
	}

	whole := math.Floor(ms)

	return time.Duration(whole)*time.Millisecond + time.Duration((ms-whole)*float64(time.Millisecond))
}

func fromMillis(ms float64) time.Time { return time.UnixMilli(int64(math.Floor(ms))) }

func clampInt(f float64) int {
	if math.IsNaN(f) {
		return 0
	}

	return int(min(max(f, math.MinInt32), math.MaxInt32))
}

// formatMillis writes milliseconds as JavaScript would: whole numbers without a point.
func formatMillis(ms float64) string { return strconv.FormatFloat(ms, 'f', -1, 64) }
