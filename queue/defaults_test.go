package queue

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Defaults of a queue are stored with its jobs as Node stores its own, and what a job says itself goes before them.
func TestDefaults(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, k *kit, n *nodeSide) {
		o := k.options("q")
		o.Defaults = &JobOptions{
			Attempts: 4, Backoff: &Backoff{Type: "exponential", Delay: time.Second}, Delay: time.Hour, RemoveOnComplete: &Keep{Count: 10},
			Extra: map[string]json.RawMessage{"mine": json.RawMessage(`1`), "both": json.RawMessage(`"default"`)},
		}

		q, err := NewQueue(o)
		k.must(err)
		t.Cleanup(func() { _ = q.Close() })

		own := JobOptions{Attempts: 2, RemoveOnComplete: &Keep{Now: true}, Extra: map[string]json.RawMessage{"both": json.RawMessage(`"own"`)}}
		one := k.add(q, "n", nil, own)
		many, err := q.AddBulk(t.Context(), []NewJob{{Name: "n", Opts: own}})
		k.must(err)

		var nodes string

		n.ask(&nodes, map[string]any{
			"op": "addDefaults", "job": "n", "data": map[string]any{},
			"defaults": map[string]any{
				"attempts": 4, "backoff": map[string]any{"type": "exponential", "delay": 1000}, "delay": 3600000, "removeOnComplete": 10, "mine": 1,
				"both": "default",
			},
			"opts": map[string]any{"attempts": 2, "removeOnComplete": true, "both": "own"},
		})

		want := k.storedOptions(nodes)
		for _, id := range []string{one, many[0].ID} {
			if diff := cmp.Diff(want, k.storedOptions(id)); diff != "" {
				t.Errorf("job %s: %s", id, diff)
			}
		}

		made, err := q.UpsertScheduler(t.Context(), "s", Repeat{Every: time.Hour}, NewJob{Name: "n", Opts: JobOptions{Attempts: 7}})
		k.must(err)

		if got := k.storedOptions(made.JobID); got["attempts"] != 7.0 || got["removeOnComplete"] != 10.0 {
			t.Errorf("a scheduler's job has %v", got)
		}
	})
}

func (k *kit) storedOptions(id string) (o map[string]any) {
	k.t.Helper()
	k.must(json.Unmarshal([]byte(k.r.HGet(k.t.Context(), "bull:q:"+id, "opts").Val()), &o))

	return o
}

func TestBadDefaults(t *testing.T) {
	t.Parallel()

	for name, o := range map[string]JobOptions{
		"an id": {JobID: "a"}, "a parent": {Parent: &ParentRef{ID: "a", Queue: "bull:q"}}, "a time": {Timestamp: time.Now()}, "a fault": {Priority: -1},
	} {
		if _, err := NewQueue(Options{RedisURL: "redis://127.0.0.1:1", Name: "q", Defaults: &o}); !errors.Is(err, ErrBadOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
