package queue

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// diffModel knows as much of the queue as it takes to make steps that mostly mean something.
type diffModel struct {
	plain  bool // only steps that both majors do alike
	ids    []string
	tokens []string // of taken jobs
	serial int
}

// diffOps are the steps, each as often as it is to be tried. A step with apart set is left out of plain sequences and ends the comparison
// with major 5: it is a known difference of the majors, where this package does as major 6 does.
var diffOps = []struct {
	op    string
	often int
	apart string // why
}{
	{"add", 14, ""},
	{"bulk", 2, ""},
	{"take", 14, ""},
	{"complete", 7, ""},
	{"fail", 8, ""},
	{"later", 3, ""},
	{"back", 3, ""},
	{"progress", 1, ""},
	{"data", 1, ""},
	{"log", 1, ""},
	{"priority", 4, ""},
	{"redelay", 2, ""},
	{"promote", 2, ""},
	{"promoteAll", 1, ""},
	{"remove", 3, ""},
	{"drain", 1, ""},
	{"clean", 2, ""},
	{"concurrency", 1, ""},
	{"rate", 1, ""},
	{"unlimit", 1, ""},
	{"stalled", 3, ""},
	{"state", 1, ""},
	{"list", 2, ""},
	{"perPriority", 1, ""},
	{"metrics", 1, ""},
	{"pause", 1, "major 5 moves the jobs of a paused queue to another list"},
	{"resume", 1, "as pause"},
	{"obliterate", 1, "it pauses, and a refused one leaves the queue paused"},
	{"retry", 3, "major 5 puts a prioritised job into the list"},
	{"retryAll", 1, "major 5 does not make a child pending again for its parent"},
}

func (m *diffModel) next(rt *rapid.T) (s diffStep, apart bool) {
	var choice []int

	for i, o := range diffOps {
		needsHold := slices.Contains([]string{"complete", "fail", "later", "back"}, o.op)
		if m.plain && o.apart != "" || needsHold && len(m.tokens) == 0 {
			continue
		}

		for range o.often {
			choice = append(choice, i)
		}
	}

	o := diffOps[rapid.SampledFrom(choice).Draw(rt, "op")]
	s = diffStep{Op: o.op, advance: rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, time.Second, 70 * time.Second}).Draw(rt, "advance")}
	apart = o.apart != ""

	switch o.op {
	case "add":
		apart = m.job(rt, &s) || apart
	case "bulk":
		s.Jobs = make([]diffStep, rapid.IntRange(1, 4).Draw(rt, "jobs"))
		for i := range s.Jobs {
			apart = m.job(rt, &s.Jobs[i]) || apart
			m.orphan(&s.Jobs[i])
		}
	case "take":
		m.serial++
		s.Token = fmt.Sprintf("t%d", m.serial)
	case "complete", "fail", "later", "back":
		s.Token = rapid.SampledFrom(m.tokens).Draw(rt, "token")
	default:
		s.ID = m.someID(rt)
	}

	m.details(rt, &s)

	return s, apart
}

// details draws what the step has besides a job.
func (m *diffModel) details(rt *rapid.T, s *diffStep) {
	millis := func() int64 { return rapid.SampledFrom([]int64{0, 1, 500, 60000}).Draw(rt, "ms") }

	switch s.Op {
	case "complete", "progress", "data":
		s.Data = rapid.SampledFrom([]json.RawMessage{[]byte(`1`), []byte(`{"a":[1,"ü"]}`), []byte(`"text"`)}).Draw(rt, "value")
	case "fail":
		s.Text, s.Flag = "boom", rapid.IntRange(0, 4).Draw(rt, "for good") == 0
	case "log":
		s.Text = "row"
	case "later", "redelay":
		s.N = millis()
	case "priority":
		s.N, s.Flag = rapid.Int64Range(0, 3).Draw(rt, "priority"), rapid.Bool().Draw(rt, "lifo")
	case "retry", "drain", "obliterate":
		s.Flag = rapid.Bool().Draw(rt, "flag")
	case "retryAll", "metrics":
		s.State = rapid.SampledFrom([]string{"completed", "failed"}).Draw(rt, "state")
	case "clean":
		s.State = rapid.SampledFrom([]string{"completed", "failed", "waiting", "delayed", "prioritized", "active"}).Draw(rt, "state")
		s.N = millis()
		// With a limit BullMQ looks only at so many jobs of the other states and may find none that is old enough; we look on.
		if s.State == "completed" || s.State == "failed" {
			s.Limit = rapid.IntRange(0, 2).Draw(rt, "limit")
		}
	case "concurrency", "rate":
		s.N = rapid.Int64Range(0, 2).Draw(rt, "bound")
	case "list":
		s.State = rapid.SampledFrom([]string{
			"completed", "failed", "waiting", "delayed", "prioritized", "active", "waiting-children",
		}).Draw(rt, "state")
	}
}

func (m *diffModel) someID(rt *rapid.T) string {
	if len(m.ids) == 0 {
		return "none"
	}

	return rapid.SampledFrom(m.ids).Draw(rt, "id")
}

// job draws a new job; apart: the majors differ in one of its options.
func (m *diffModel) job(rt *rapid.T, s *diffStep) (apart bool) {
	s.Data = rapid.SampledFrom([]json.RawMessage{[]byte(`{}`), []byte(`{"n":[]}`), []byte(`null`)}).Draw(rt, "data")
	o := JobOptions{}
	yes := func(name string, oneIn int) bool { return rapid.IntRange(1, oneIn).Draw(rt, name) == oneIn }

	if yes("own id", 5) {
		o.JobID = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "job id")
	}

	if yes("delayed", 4) {
		o.Delay = rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute}).Draw(rt, "delay")
	}

	if yes("prioritised", 3) {
		o.Priority = rapid.IntRange(1, 3).Draw(rt, "priority")
	}

	o.LIFO = yes("lifo", 5)

	if yes("tried again", 3) {
		o.Attempts = rapid.IntRange(2, 3).Draw(rt, "attempts")
		o.Backoff = rapid.SampledFrom([]*Backoff{
			nil, {Type: "fixed", Delay: time.Second}, {Type: "exponential", Delay: time.Second},
		}).Draw(rt, "backoff")
	}

	if yes("removed", 4) {
		o.RemoveOnComplete = rapid.SampledFrom([]*Keep{{Now: true}, {Count: 1}, {Age: time.Minute}}).Draw(rt, "keep completed")
		o.RemoveOnFail = rapid.SampledFrom([]*Keep{nil, {Now: true}, {Count: 1}}).Draw(rt, "keep failed")
	}

	if yes("deduplicated", 5) {
		apart = m.dedup(rt, &o)
	} else if len(m.ids) > 0 && yes("child", 4) {
		o.Parent = &ParentRef{ID: m.someID(rt), Queue: "bull:q"}
		m.onFailure(rt, &o)
	}

	s.options, s.Opts = o, nodeOptions(&o)

	return apart
}

// orphan takes the parent off a job for AddBulk: a refusal by the parent is an error of ours, and for Node an id such as -7.
func (*diffModel) orphan(s *diffStep) {
	o := &s.options
	o.Parent = nil
	o.FailParentOnFailure, o.ContinueParentOnFailure, o.IgnoreDependencyOnFailure, o.RemoveDependencyOnFailure = false, false, false, false
	s.Opts = nodeOptions(o)
}

func (m *diffModel) dedup(rt *rapid.T, o *JobOptions) (apart bool) {
	d := &Deduplication{ID: rapid.SampledFrom([]string{"d", "e"}).Draw(rt, "dedup id")}
	o.Deduplication = d

	switch rapid.IntRange(0, 4).Draw(rt, "dedup mode") {
	case 1:
		d.TTL = 10 * time.Hour
	case 2:
		d.TTL, d.Extend = 10*time.Hour, true
	case 3:
		d.Replace = true
	case 4:
		d.KeepLastIfActive = true
	}

	// Major 5 never recovers an id whose owner is gone, and keeps the next job of a replaced owner.
	return true
}

func (*diffModel) onFailure(rt *rapid.T, o *JobOptions) {
	switch rapid.IntRange(0, 4).Draw(rt, "on failure") {
	case 1:
		o.FailParentOnFailure = true
	case 2:
		o.ContinueParentOnFailure = true
	case 3:
		o.IgnoreDependencyOnFailure = true
	case 4:
		o.RemoveDependencyOnFailure = true
	}
}

// learn takes over what the step has told.
func (m *diffModel) learn(s diffStep, a diffAnswer) {
	if slices.Contains([]string{"complete", "fail", "later", "back"}, s.Op) {
		m.tokens = slices.DeleteFunc(m.tokens, func(t string) bool { return t == s.Token })
	}

	if a.Fault != "" {
		return
	}

	switch id, _ := a.OK.(string); {
	case s.Op == "take" && id != "":
		m.tokens = append(m.tokens, s.Token)
	case s.Op == "add" && !slices.Contains(m.ids, id):
		m.ids = append(m.ids, id)
	}
}

// nodeOptions writes options as Node's callers do.
func nodeOptions(o *JobOptions) map[string]any {
	n := map[string]any{}
	set := func(name string, value any, is bool) {
		if is {
			n[name] = value
		}
	}

	set("jobId", o.JobID, o.JobID != "")
	set("delay", o.Delay.Milliseconds(), o.Delay > 0)
	set("priority", o.Priority, o.Priority > 0)
	set("lifo", true, o.LIFO)
	set("attempts", o.Attempts, o.Attempts > 0)
	set("removeOnComplete", o.RemoveOnComplete, o.RemoveOnComplete != nil)
	set("removeOnFail", o.RemoveOnFail, o.RemoveOnFail != nil)
	set("failParentOnFailure", true, o.FailParentOnFailure)
	set("continueParentOnFailure", true, o.ContinueParentOnFailure)
	set("ignoreDependencyOnFailure", true, o.IgnoreDependencyOnFailure)
	set("removeDependencyOnFailure", true, o.RemoveDependencyOnFailure)

	if b := o.Backoff; b != nil {
		n["backoff"] = map[string]any{"type": b.Type, "delay": b.Delay.Milliseconds()}
	}

	if p := o.Parent; p != nil {
		n["parent"] = map[string]any{"id": p.ID, "queue": p.Queue}
	}

	if d := o.Deduplication; d != nil {
		de := map[string]any{"id": d.ID}
		if d.TTL > 0 {
			de["ttl"] = d.TTL.Milliseconds()
		}

		for name, is := range map[string]bool{"extend": d.Extend, "replace": d.Replace, "keepLastIfActive": d.KeepLastIfActive} {
			if is {
				de[name] = true
			}
		}

		n["deduplication"] = de
	}

	return n
}
