package queue

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// nodeFlow is a FlowJob as Node takes it.
func nodeFlow(t *testing.T, f FlowJob) map[string]any {
	t.Helper()

	text, err := encodeOptions(&f.Opts)
	if err != nil {
		t.Fatal(err)
	}

	var opts map[string]any
	if err := json.Unmarshal(text, &opts); err != nil {
		t.Fatal(err)
	}

	for short, long := range map[string]string{
		"fpof": "failParentOnFailure", "cpof": "continueParentOnFailure", "idof": "ignoreDependencyOnFailure",
		"rdof": "removeDependencyOnFailure", "kl": "keepLogs",
	} {
		if v, ok := opts[short]; ok {
			delete(opts, short)
			opts[long] = v
		}
	}

	tree := map[string]any{"name": f.Name, "queueName": f.Queue, "opts": opts}
	if f.Data != nil {
		tree["data"] = f.Data
	}

	var children []any
	for _, c := range f.Children {
		children = append(children, nodeFlow(t, c))
	}

	if children != nil {
		tree["children"] = children
	}

	return tree
}

// Each tree leaves the same keys and events whichever library adds it.
func TestFlowAsNode(t *testing.T) {
	t.Parallel()

	kn, kg := newKit(t), newKit(t)
	n := kn.startNode("6")
	n.ask(nil, map[string]any{"op": "counts"}) // it is up

	trees := map[string]FlowJob{
		"two levels": node("pq", "A", JobOptions{Attempts: 2}, node("cq", "A1", JobOptions{}), node("cq", "A2", JobOptions{LIFO: true})),
		"failure options": node("pq", "B", JobOptions{Priority: 4},
			node("cq", "B1", JobOptions{FailParentOnFailure: true}), node("cq", "B2", JobOptions{ContinueParentOnFailure: true}),
			node("cq", "B3", JobOptions{IgnoreDependencyOnFailure: true}), node("cq", "B4", JobOptions{RemoveDependencyOnFailure: true})),
		"three levels, one queue": node("q", "C", JobOptions{Delay: time.Minute},
			node("q", "C1", JobOptions{KeepLogs: 3}, node("q", "C11", JobOptions{Priority: 1}), node("q", "C12", JobOptions{Delay: time.Minute})),
			node("q", "C2", JobOptions{}, node("q", "C21", JobOptions{}))),
		"no ids":  {Queue: "u", Name: "root", Data: json.RawMessage(`{"a":[]}`), Children: []FlowJob{{Queue: "v", Name: "leaf"}}},
		"adopted": node("pq", "D", JobOptions{}, node("pq", "D1", JobOptions{}, node("cq", "D11", JobOptions{}), node("cq", "D11", JobOptions{}))),
		"a leaf":  node("q", "E", JobOptions{RemoveOnComplete: &Keep{Now: true}}),
	}

	for name, tree := range trees {
		kn.must(kn.r.FlushAll(t.Context()).Err())
		kg.must(kg.r.FlushAll(t.Context()).Err())

		began := time.Now()

		n.ask(nil, map[string]any{"op": "flow", "tree": nodeFlow(t, tree)})
		kg.flow(tree)

		if d := cmp.Diff(nearDump(kn, began), nearDump(kg, began)); d != "" {
			t.Errorf("%s: node - go +\n%s", name, d)
		}

		for _, q := range []string{"pq", "cq", "q", "u", "v"} {
			events := func(k *kit) (all []string) {
				for _, line := range k.events("bull:" + q + ":events") {
					all = append(all, milliseconds.ReplaceAllString(uuids.ReplaceAllString(line, "<uuid>"), "<ms>"))
				}

				return all
			}
			if d := cmp.Diff(events(kn), events(kg)); d != "" {
				t.Errorf("%s: events of %s: node - go +\n%s", name, q, d)
			}
		}
	}
}

// Options for all jobs of a queue reach the nodes of a tree as BullMQ's queuesOptions do.
func TestFlowDefaultsAsNode(t *testing.T) {
	t.Parallel()

	kn, kg := newKit(t), newKit(t)
	n := kn.startNode("6")
	n.ask(nil, map[string]any{"op": "counts"}) // it is up

	kn.must(kn.r.FlushAll(t.Context()).Err())

	began := time.Now()
	leaf := map[string]any{"name": "n", "queueName": "cq", "opts": map[string]any{"jobId": "A1", "priority": 9}}
	n.ask(nil, map[string]any{
		"op": "flow",
		"tree": map[string]any{
			"name": "n", "queueName": "pq", "opts": map[string]any{"jobId": "A", "attempts": 7}, "children": []any{leaf},
		},
		"options": map[string]any{"queuesOptions": map[string]any{
			"pq": map[string]any{"defaultJobOptions": map[string]any{"attempts": 3, "keepLogs": 5, "priority": 2}},
			"cq": map[string]any{"defaultJobOptions": map[string]any{"priority": 4, "failParentOnFailure": true, "removeOnComplete": 10}},
		}},
	})

	f, err := NewFlows(FlowOptions{RedisURL: kg.url, Defaults: map[string]JobOptions{
		"pq": {Attempts: 3, KeepLogs: 5, Priority: 2},
		"cq": {Priority: 4, FailParentOnFailure: true, RemoveOnComplete: &Keep{Count: 10}},
	}})
	kg.must(err)

	defer f.Close()

	_, err = f.Add(t.Context(), FlowJob{Queue: "pq", Name: "n", Opts: JobOptions{JobID: "A", Attempts: 7}, Children: []FlowJob{
		{Queue: "cq", Name: "n", Opts: JobOptions{JobID: "A1", Priority: 9}},
	}})
	kg.must(err)

	if d := cmp.Diff(nearDump(kn, began), nearDump(kg, began)); d != "" {
		t.Errorf("node - go +\n%s", d)
	}
}

// Node's worker runs a tree of ours from its leaves to its root, and ours one of Node's; each reads what the other's children returned.
func TestFlowsCrossLibraries(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, k *kit, n *nodeSide) {
		ctx := t.Context()
		pq, cq := k.queue("p"), k.queue("q")

		with := func(f FlowJob, number int) FlowJob {
			f.Data = map[string]int{"n": number}
			return f
		}

		// The leaf is Node's work, the root ours.
		k.flow(with(node("p", "root", JobOptions{}, with(node("q", "leaf", JobOptions{}), 1)), 2))
		n.ask(nil, map[string]any{"op": "work"})
		k.run(k.workerOptions("p"), func(ctx context.Context, j *Job) (any, error) { return j.ChildrenValues(ctx) })
		k.awaitState(pq, "root", StateCompleted)

		j, err := pq.Job(ctx, "root")
		k.must(err)

		if want := `{"bull:q:leaf":{"by":"node","n":1,"children":{}}}`; string(j.ReturnValue) != want {
			t.Errorf("the root got %s, want %s", j.ReturnValue, want)
		}

		// The other way round: the root is Node's work, the leaf ours.
		n.ask(nil, map[string]any{"op": "flow", "tree": nodeFlow(t, with(node("q", "top", JobOptions{}, node("p", "low", JobOptions{})), 3))})
		k.awaitState(cq, "top", StateCompleted)

		j, err = cq.Job(ctx, "top")
		k.must(err)

		if want := `{"by":"node","n":3,"children":{"bull:p:low":{}}}`; string(j.ReturnValue) != want {
			t.Errorf("the root got %s, want %s", j.ReturnValue, want)
		}
	})
}
