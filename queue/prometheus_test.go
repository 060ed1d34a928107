package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The text is Node's own, in each state and with labels that need escaping.
func TestPrometheusTextAsNode(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	n := k.startNode("6")

	for _, o := range []JobOptions{{}, {}, {Priority: 3}, {Delay: time.Hour}} {
		k.add(q, "n", nil, o)
	}

	k.flow(node("q", "P", JobOptions{}, node("other", "C", JobOptions{})))
	k.must(k.r.HSet(t.Context(), "bull:q:metrics:completed", "count", 7, "prevTS", 1, "prevCount", 3).Err())

	for _, labels := range []map[string]string{nil, {"env": "prod", "path": "a\"b\\c\nd"}} {
		var want string
		n.ask(&want, map[string]any{"op": "prometheus", "labels": labels})

		got, err := q.PrometheusText(t.Context(), labels)
		k.must(err)

		if d := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(got)); d != "" {
			t.Errorf("labels %v: node - go +\n%s", labels, d)
		}
	}
}

// What a parent still waits for goes, as Node takes it away: what runs, has failed or is done stays.
func TestRemoveUnprocessedChildrenAsNode(t *testing.T) {
	t.Parallel()

	kn, kg := newKit(t), newKit(t)
	n := kn.startNode("6")
	n.ask(nil, map[string]any{"op": "counts"}) // it is up
	kn.must(kn.r.FlushAll(t.Context()).Err())

	began := time.Now()

	for _, k := range []*kit{kn, kg} {
		mixedFamily(k)
	}

	n.ask(nil, map[string]any{"op": "removeUnprocessedChildren", "id": "P"})
	kg.must(kg.queue("q").RemoveUnprocessedChildren(t.Context(), "P"))

	if d := cmp.Diff(nearDump(kn, began), nearDump(kg, began)); d != "" {
		t.Errorf("node - go +\n%s", d)
	}

	for _, id := range []string{"waits", "late", "ranked", "mid", "leaf", "midrun"} {
		kg.awaitState(kg.queue("q"), id, StateUnknown)
	}

	for id, state := range map[string]State{
		"P": StateWaitingChildren, "runs": StateActive, "done": StateCompleted, "broken": StateFailed, "leafdone": StateCompleted,
		"leafruns": StateActive,
	} {
		kg.awaitState(kg.queue("q"), id, state)
	}

	kg.must(kg.queue("q").RemoveUnprocessedChildren(t.Context(), "nobody"))
}

// The last child that goes lets its parent go on.
func TestRemoveUnprocessedChildrenFreesTheParent(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	k.flow(node("q", "P", JobOptions{}, node("other", "C", JobOptions{}), node("q", "D", JobOptions{})))
	k.must(q.RemoveUnprocessedChildren(t.Context(), "P"))
	k.awaitState(q, "P", StateWaiting)
}

// mixedFamily is a parent P of whose children some have ended, some run and some wait, one of them for children of its own.
func mixedFamily(k *kit) {
	k.t.Helper()

	q, w := k.queue("q"), k.worker("q")
	k.flow(node("q", "P", JobOptions{},
		node("q", "runs", JobOptions{}), node("q", "done", JobOptions{}), node("q", "broken", JobOptions{}), node("q", "waits", JobOptions{}),
		node("q", "late", JobOptions{Delay: time.Minute}), node("q", "ranked", JobOptions{Priority: 3}),
		node("q", "mid", JobOptions{}, node("q", "leaf", JobOptions{}), node("q", "leafdone", JobOptions{})),
		node("q", "midrun", JobOptions{}, node("q", "leafruns", JobOptions{}))))

	take := func(id string) *hold {
		k.must(k.r.LRem(k.t.Context(), "bull:q:wait", 0, id).Err())
		k.must(k.r.RPush(k.t.Context(), "bull:q:wait", id).Err())

		h := k.take(w, "t")
		if h.job.ID != id {
			k.t.Fatalf("took %s instead of %s", h.job.ID, id)
		}

		return h
	}

	take("runs")
	take("leafruns")

	w.conclude(take("done"), nil, nil)
	w.conclude(take("leafdone"), nil, nil)
	w.conclude(take("broken"), nil, errBoom)

	k.awaitState(q, "broken", StateFailed)
}
