package queuecmd

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/posefleet/posefleet/queue"
)

// stats is the document of Stats. Ages are in seconds.
type stats struct {
	Prefix string   `json:"prefix"`
	Queue  string   `json:"queue"`
	Paused bool     `json:"paused"`
	Counts counts   `json:"counts"`
	Oldest *oldest  `json:"oldestWaiting"`
	Worker []worker `json:"workers"` // null: Redis does not let us ask
}

type counts struct {
	Waiting         int64 `json:"waiting"` // with those that a major 5 client has moved away
	Active          int64 `json:"active"`
	Delayed         int64 `json:"delayed"`
	Prioritized     int64 `json:"prioritized"`
	WaitingChildren int64 `json:"waitingChildren"`
	Completed       int64 `json:"completed"`
	Failed          int64 `json:"failed"`
}

type oldest struct {
	ID    string    `json:"id"`
	Since time.Time `json:"since"`
	Age   float64   `json:"ageSeconds"`
}

type worker struct {
	Name string  `json:"name"`
	Addr string  `json:"addr"`
	ID   string  `json:"connection"`
	Age  float64 `json:"ageSeconds"`
	Idle float64 `json:"idleSeconds"`
}

// Stats shows how many jobs are in each state, whether the queue is paused, since when the oldest job waits, and the connected workers.
func (d *Desk) Stats(ctx context.Context) error {
	n, err := d.Queue.Counts(ctx)
	if err != nil {
		return err
	}

	s := stats{Prefix: d.prefix(), Queue: d.Options.Name, Paused: n.Paused, Counts: counts{
		Waiting: n.Waiting, Active: n.Active, Delayed: n.Delayed, Prioritized: n.Prioritized, WaitingChildren: n.WaitingChildren,
		Completed: n.Completed, Failed: n.Failed,
	}}

	id, since, err := d.Queue.Oldest(ctx)
	if err != nil {
		return err
	}

	if id != "" {
		s.Oldest = &oldest{ID: id, Since: since.UTC(), Age: d.now().Sub(since).Seconds()}
	}

	connected, denied := d.Queue.Workers(ctx) // a managed Redis may forbid to ask
	if denied == nil {
		s.Worker = workersOf(connected)
	}

	if d.JSON {
		return d.document(s)
	}

	return d.table(s.rows(d))
}

func (d *Desk) prefix() string {
	if d.Options.Prefix == "" {
		return queue.DefaultPrefix
	}

	return d.Options.Prefix
}

func workersOf(connected []queue.WorkerInfo) []worker {
	out := make([]worker, 0, len(connected))
	for _, w := range connected {
		out = append(out, worker{Name: w.Name, Addr: w.Addr, ID: w.ID, Age: w.Age.Seconds(), Idle: w.Idle.Seconds()})
	}

	return out
}

func (s *stats) rows(d *Desk) [][]string {
	state := "running"
	if s.Paused {
		state = "paused: nobody takes jobs"
	}

	waits, connected := "-", "unknown (Redis forbids CLIENT LIST)"
	if s.Oldest != nil {
		waits = fmt.Sprintf("%s (%s)", age(d.now().Sub(s.Oldest.Since)), s.Oldest.ID)
	}

	if s.Worker != nil {
		connected = strconv.Itoa(len(s.Worker))
	}

	rows := [][]string{{"queue", s.Prefix + ":" + s.Queue}, {"state", state}}

	for _, row := range []struct {
		name string
		n    int64
	}{
		{"waiting", s.Counts.Waiting},
		{"prioritized", s.Counts.Prioritized},
		{"delayed", s.Counts.Delayed},
		{"waiting-children", s.Counts.WaitingChildren},
		{"active", s.Counts.Active},
		{"completed", s.Counts.Completed},
		{"failed", s.Counts.Failed},
	} {
		rows = append(rows, []string{row.name, strconv.FormatInt(row.n, 10)})
	}

	return append(rows, []string{"oldest waiting", waits}, []string{"workers", connected})
}

// Workers shows the connected workers, of any language.
func (d *Desk) Workers(ctx context.Context) error {
	connected, err := d.Queue.Workers(ctx)
	if err != nil {
		return err
	}

	if d.JSON {
		return d.document(map[string]any{"workers": workersOf(connected)})
	}

	if len(connected) == 0 {
		return d.say("no worker is connected to queue %s", oneLine(d.name()))
	}

	rows := [][]string{{"NAME", "ADDRESS", "CONNECTED", "IDLE"}}

	for _, w := range connected {
		name := w.Name
		if name == "" {
			name = "-"
		}

		rows = append(rows, []string{name, w.Addr, age(w.Age), age(w.Idle)})
	}

	return d.table(rows)
}
