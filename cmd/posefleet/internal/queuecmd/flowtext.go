package queuecmd

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/posefleet/posefleet/internal/strictjson"
	"github.com/posefleet/posefleet/queue"
)

// flowText is a tree of jobs as BullMQ's FlowProducer takes it. Without a queueName a job is of the queue that the command is about.
type flowText struct {
	Name     string          `json:"name"`
	Queue    string          `json:"queueName"`
	Prefix   string          `json:"prefix"`
	Data     json.RawMessage `json:"data"`
	Opts     optionsText     `json:"opts"`
	Children []flowText      `json:"children"`
}

// optionsText are a job's options by their long names. Times are in milliseconds, but for the age of a keep rule.
type optionsText struct {
	JobID            string       `json:"jobId"`
	Attempts         int          `json:"attempts"`
	Backoff          *backoffText `json:"backoff"`
	Delay            float64      `json:"delay"`
	Priority         int          `json:"priority"`
	LIFO             bool         `json:"lifo"`
	Timestamp        int64        `json:"timestamp"`
	RemoveOnComplete *keep        `json:"removeOnComplete"`
	RemoveOnFail     *keep        `json:"removeOnFail"`
	KeepLogs         int          `json:"keepLogs"`
	SizeLimit        int          `json:"sizeLimit"`
	StackTraceLimit  *int         `json:"stackTraceLimit"`
	FailParent       bool         `json:"failParentOnFailure"`
	ContinueParent   bool         `json:"continueParentOnFailure"`
	IgnoreDependency bool         `json:"ignoreDependencyOnFailure"`
	RemoveDependency bool         `json:"removeDependencyOnFailure"`
	Dedup            *dedupText   `json:"deduplication"`
}

type backoffText struct {
	Type   string  `json:"type"`
	Delay  float64 `json:"delay"`
	Jitter float64 `json:"jitter"`
}

type dedupText struct {
	ID       string  `json:"id"`
	TTL      float64 `json:"ttl"`
	Extend   bool    `json:"extend"`
	Replace  bool    `json:"replace"`
	KeepLast bool    `json:"keepLastIfActive"`
}

// UnmarshalJSON reads a number of milliseconds, which is a fixed pause, or an object.
func (b *backoffText) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &b.Delay) == nil {
		b.Type = "fixed"

		return nil
	}

	type plain backoffText

	return strictly(text, (*plain)(b))
}

// strictly refuses names that it does not know, or that come twice: a mistyped option would be ignored otherwise.
func strictly(text []byte, to any) error {
	if err := strictjson.Unmarshal(text, to); err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}

	return nil
}

func (f *flowText) job(name string) queue.FlowJob {
	j := queue.FlowJob{Queue: f.Queue, Prefix: f.Prefix, Name: f.Name, Opts: f.Opts.options()}
	if j.Queue == "" {
		j.Queue = name
	}

	if len(f.Data) > 0 {
		j.Data = f.Data
	}

	for i := range f.Children {
		j.Children = append(j.Children, f.Children[i].job(name))
	}

	return j
}

func (o *optionsText) options() queue.JobOptions {
	out := queue.JobOptions{
		JobID: o.JobID, Attempts: o.Attempts, Delay: millis(o.Delay), Priority: o.Priority, LIFO: o.LIFO, RemoveOnComplete: o.RemoveOnComplete,
		RemoveOnFail: o.RemoveOnFail, KeepLogs: o.KeepLogs, SizeLimit: o.SizeLimit, StackTraceLimit: o.StackTraceLimit,
		FailParentOnFailure: o.FailParent, ContinueParentOnFailure: o.ContinueParent, IgnoreDependencyOnFailure: o.IgnoreDependency,
		RemoveDependencyOnFailure: o.RemoveDependency,
	}

	if b := o.Backoff; b != nil {
		out.Backoff = &queue.Backoff{Type: b.Type, Delay: millis(b.Delay), Jitter: b.Jitter}
	}

	if d := o.Dedup; d != nil {
		out.Deduplication = &queue.Deduplication{
			ID: d.ID, TTL: millis(d.TTL), Extend: d.Extend, Replace: d.Replace, KeepLastIfActive: d.KeepLast,
		}
	}

	if o.Timestamp != 0 {
		out.Timestamp = time.UnixMilli(o.Timestamp)
	}

	return out
}

func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
