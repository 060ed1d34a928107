package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/internal/wait"
)

// A child that belongs to another living parent, or a root whose parent does not exist, is found before anything is written.
func TestRefusedFlowLeavesNothing(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	k.flow(node("pq", "P1", JobOptions{}, node("cq", "C", JobOptions{})))

	before, beforeEvents := k.dump(), k.events("bull:cq:events")
	lost := JobOptions{Parent: &ParentRef{ID: "nobody", Queue: "bull:q"}}

	for name, tt := range map[string]struct {
		roots []FlowJob
		want  error
		job   string
	}{
		"child of another parent": {
			[]FlowJob{node("pq", "P2", JobOptions{}, node("cq", "D", JobOptions{}), node("cq", "C", JobOptions{}))}, ErrParentTaken, "C",
		},
		"deep child of another parent": {
			[]FlowJob{node("pq", "P2", JobOptions{}, node("pq", "P3", JobOptions{}, node("cq", "C", JobOptions{})))}, ErrParentTaken, "C",
		},
		"twice in one call": {
			[]FlowJob{
				node("pq", "P2", JobOptions{}, node("cq", "D", JobOptions{})), node("pq", "P3", JobOptions{}, node("cq", "D", JobOptions{})),
			}, ErrParentTaken, "D",
		},
		"no such parent": {[]FlowJob{node("pq", "P2", lost, node("cq", "D", JobOptions{}))}, ErrParentMissing, "P2"},
		"one of several": {
			[]FlowJob{node("pq", "P2", JobOptions{}, node("cq", "D", JobOptions{})), node("pq", "P3", lost)}, ErrParentMissing, "P3",
		},
	} {
		_, err := k.flows().AddBulk(t.Context(), tt.roots)

		refused, _ := errors.AsType[*ScriptError](err)
		if !errors.Is(err, tt.want) || refused == nil || refused.JobID != tt.job {
			t.Errorf("%s: got %v, want %v of job %s", name, err, tt.want, tt.job)
		}

		if d := cmp.Diff(before, k.dump(), cmp.AllowUnexported(dumped{})); d != "" || !slices.Equal(beforeEvents, k.events("bull:cq:events")) {
			t.Errorf("%s has left something behind: %s", name, d)
		}
	}
}

func TestBadFlowsAreRefused(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	leaf := node("cq", "C", JobOptions{})

	for name, tt := range map[string]struct {
		root FlowJob
		want error
	}{
		"deduplicated parent": {node("q", "P", JobOptions{Deduplication: &Deduplication{ID: "d"}}, leaf), ErrBadOptions},
		"deduplicated child": { // as BullMQ
			node("q", "P", JobOptions{}, node("q", "C", JobOptions{Deduplication: &Deduplication{ID: "d"}})), ErrBadOptions,
		},
		"parent inside": {
			node("q", "P", JobOptions{}, node("q", "C", JobOptions{Parent: &ParentRef{ID: "x", Queue: "bull:q"}})), ErrBadOptions,
		},
		"two failure options": {
			node("q", "P", JobOptions{}, node("q", "C", JobOptions{FailParentOnFailure: true, IgnoreDependencyOnFailure: true})), ErrBadOptions,
		},
		"own ancestor":  {node("q", "P", JobOptions{}, node("q", "C", JobOptions{}, node("q", "P", JobOptions{}))), ErrBadOptions},
		"no queue":      {node("q", "P", JobOptions{}, node("", "C", JobOptions{})), ErrBadName},
		"integer as id": {node("q", "P", JobOptions{}, node("q", "7", JobOptions{})), ErrBadJobID},
	} {
		if _, err := k.flows().Add(t.Context(), tt.root); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}

	if left := k.dump(); len(left) != 0 {
		t.Errorf("something was written: %v", left)
	}

	if _, err := NewFlows(FlowOptions{RedisURL: "redis://127.0.0.1:1,127.0.0.1:2"}); !errors.Is(err, ErrBadName) {
		t.Errorf("a cluster without a hash tag: %v", err)
	}
}

// A child whose parent is gone is adopted; a parent whose children all are done already runs at once.
func TestFlowAdoptsExistingChildren(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	pq, cq := k.queue("pq"), k.queue("cq")

	k.flow(node("pq", "P1", JobOptions{}, node("cq", "C", JobOptions{})))
	k.must(k.r.Del(t.Context(), "bull:pq:P1").Err())
	k.must(k.r.ZRem(t.Context(), "bull:pq:waiting-children", "P1").Err())

	added := k.flow(node("pq", "P2", JobOptions{}, node("cq", "C", JobOptions{})))
	if !added.Children[0].Duplicate || added.Duplicate {
		t.Errorf("added %+v", added)
	}

	w := k.worker("cq")
	k.expect(w.complete(k.take(w, "t"), 7), OutcomeCompleted)
	k.awaitState(pq, "P2", StateWaiting)

	k.add(cq, "c", nil, JobOptions{JobID: "D"})
	k.expect(w.complete(k.take(w, "t"), 8), OutcomeCompleted)
	k.flow(node("pq", "P3", JobOptions{}, node("cq", "D", JobOptions{})))
	k.awaitState(pq, "P3", StateWaiting)

	j, err := pq.Job(t.Context(), "P3")
	k.must(err)

	if values, err := j.ChildrenValues(t.Context()); err != nil || string(values["bull:cq:D"]) != "8" {
		t.Errorf("values %s, %v", values, err)
	}
}

// The second call of a flow whose answer was lost adds nothing.
func TestFlowWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	f := k.flows()
	root := node("pq", "P", JobOptions{}, node("cq", "C", JobOptions{}))
	p := &flowPlan{flows: f, now: time.Now(), queue: []flowEntry{{job: &root}}}
	k.must(p.build())

	send := func(doubt string) []any {
		reply, err := f.scripts.flow.run(t.Context(), f.client, p.entries[0].keys, append([]any{doubt, p.now.UnixMilli()}, p.args...)...)
		k.must(err)

		answers, err := p.read(reply)
		k.must(err)

		return answers
	}

	if send("1") == nil {
		t.Error("the first call, in doubt about an earlier one, added nothing")
	}

	before := k.dump()

	if send("1") != nil {
		t.Error("the second call added something")
	}

	if d := cmp.Diff(before, k.dump(), cmp.AllowUnexported(dumped{})); d != "" {
		t.Error(d)
	}

	if added := p.tree(nil); added[0].ID != "P" || added[0].Children[0].ID != "C" {
		t.Errorf("answer %+v", added)
	}
}

// A refused connection is tried again, and given up after a few tries.
func TestFlowsAndSchedulersWithoutRedis(t *testing.T) {
	t.Parallel()

	const nobody = "redis://127.0.0.1:1"

	f, err := NewFlows(FlowOptions{RedisURL: nobody})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	q, err := NewQueue(Options{RedisURL: nobody, Name: "q"})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()

	_, flowErr := f.Add(t.Context(), node("q", "P", JobOptions{}))
	_, getErr := f.Get(t.Context(), FlowQuery{Queue: "q", ID: "P"})
	_, upsertErr := q.UpsertScheduler(t.Context(), "s", Repeat{Every: time.Second}, NewJob{})
	_, removeErr := q.RemoveScheduler(t.Context(), "s")
	_, listErr := q.Schedulers(t.Context(), 0, 1)

	for i, err := range []error{flowErr, getErr, upsertErr, removeErr, listErr} {
		if !neverSent(err) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

func TestReadFlow(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	ctx := t.Context()
	f := k.flows()
	added := k.flow(FlowJob{Queue: "a", Name: "root", Children: []FlowJob{
		node("b", "X", JobOptions{}, node("c", "Y", JobOptions{}), node("c", "Z", JobOptions{})),
		{Queue: "b", Name: "uuid"},
	}})

	if len(added.ID) != 36 || len(added.Children) != 2 || added.Children[0].Children[1].ID != "Z" || len(added.Children[1].ID) != 36 {
		t.Fatalf("added %+v", added)
	}

	w := k.worker("c")
	k.expect(w.complete(k.take(w, "t"), "y"), OutcomeCompleted)

	tree, err := f.Get(ctx, FlowQuery{Queue: "a", ID: added.ID})
	k.must(err)

	var flat []string

	var walk func(n *FlowTree, depth int)

	walk = func(n *FlowTree, depth int) {
		flat = append(flat, fmt.Sprintf("%d %s %s", depth, n.Queue, n.Job.Name))
		for _, c := range n.Children {
			walk(c, depth+1)
		}
	}
	walk(tree, 0)
	slices.Sort(flat)

	if want := []string{"0 a root", "1 b uuid", "1 b x", "2 c y", "2 c z"}; !slices.Equal(flat, want) {
		t.Errorf("tree %q, want %q", flat, want)
	}

	counts, err := tree.Children[slices.IndexFunc(tree.Children, func(n *FlowTree) bool { return n.Job.ID == "X" })].Job.FamilyCounts(ctx)
	if err != nil || counts != (FamilyCounts{Pending: 1, Processed: 1}) {
		t.Errorf("counts %+v, %v", counts, err)
	}

	if top, err := f.Get(ctx, FlowQuery{Queue: "a", ID: added.ID, Depth: 1}); err != nil || len(top.Children) != 0 {
		t.Errorf("one level: %+v, %v", top, err)
	}

	if few, err := f.Get(ctx, FlowQuery{Queue: "a", ID: added.ID, MaxChildren: 1}); err != nil || len(few.Children) != 1 {
		t.Errorf("one child: %+v, %v", few, err)
	}

	if _, err := f.Get(ctx, FlowQuery{Queue: "a", ID: "none"}); !errors.Is(err, ErrJobNotFound) {
		t.Errorf("no job: %v", err)
	}
}

// A running job adds children and waits for them; it fails if one of them fails it, and goes on at once if none is pending.
func TestWaitForChildren(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	pq, cq := k.queue("pq"), k.queue("cq")

	var (
		mu   sync.Mutex
		seen []string
	)

	k.run(k.workerOptions("cq"), func(_ context.Context, j *Job) (any, error) {
		if j.Name == "bad" {
			return nil, errBoom
		}

		return j.Name, nil
	})
	k.run(k.workerOptions("pq"), func(ctx context.Context, j *Job) (any, error) {
		f, err := j.Family(ctx)
		if err != nil {
			return nil, err
		}

		mu.Lock()
		seen = append(seen, fmt.Sprintf("%s %d %d", j.ID, len(f.Processed), j.AttemptsMade))
		mu.Unlock()

		if len(f.Processed) > 0 || j.Name == "none" && j.AttemptsStarted > 1 {
			return len(f.Processed), nil
		}

		for i := range 2 {
			if j.Name == "none" {
				break
			}

			_, err := cq.Add(ctx, j.Name, nil, JobOptions{JobID: fmt.Sprintf("%s-%d", j.ID, i), Parent: new(j.Ref()), FailParentOnFailure: true})
			if err != nil {
				return nil, err
			}
		}

		return nil, WaitForChildren()
	})

	k.add(pq, "good", nil, JobOptions{JobID: "G"})
	k.add(pq, "bad", nil, JobOptions{JobID: "B"})
	k.add(pq, "none", nil, JobOptions{JobID: "N"})

	k.awaitState(pq, "G", StateCompleted)
	k.awaitState(pq, "B", StateFailed)
	k.awaitState(pq, "N", StateCompleted)

	j, err := pq.Job(t.Context(), "B")
	// Its child fails before it waits, or afterwards.
	if err != nil || !strings.HasPrefix(j.FailedReason, "child bull:cq:B-") && !strings.Contains(j.FailedReason, ErrFailedChildren.Error()) {
		t.Errorf("failed for %q, %v", j.FailedReason, err)
	}

	g, err := pq.Job(t.Context(), "G")
	if err != nil || string(g.ReturnValue) != "2" || g.AttemptsMade != 1 {
		t.Errorf("%+v, %v", g, err)
	}

	mu.Lock()
	defer mu.Unlock()

	if !slices.Contains(seen, "G 2 0") {
		t.Errorf("starts %q", seen)
	}
}

// A child that has failed already fails its parent when that wants to wait.
func TestWaitForChildrenAfterAFailure(t *testing.T) {
	t.Parallel()

	s := &scene{kit: newKit(t)}
	pq, cq, parent := parentAtWork(s)
	s.endChild(cq, func(h *hold) Outcome { return cq.fail(h, errBoom) }, OutcomeFailed)
	s.expect(pq.conclude(parent, nil, WaitForChildren()), OutcomeFailed)

	j, err := s.queue("pq").Job(t.Context(), "P")
	if err != nil || !strings.Contains(j.FailedReason, ErrFailedChildren.Error()) {
		t.Errorf("failed for %q, %v", j.FailedReason, err)
	}
}

func TestLeaveParent(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	ctx := t.Context()
	cq := k.queue("cq")
	k.flow(node("pq", "P", JobOptions{}, node("cq", "C", JobOptions{}), node("cq", "D", JobOptions{})))

	leave := func(id string, want bool, fault error) {
		t.Helper()

		j, err := cq.Job(ctx, id)
		k.must(err)

		if got, err := j.LeaveParent(ctx); got != want || !errors.Is(err, fault) {
			t.Errorf("%s left %v, %v", id, got, err)
		}
	}

	leave("C", true, nil)
	leave("C", false, nil)
	leave("D", true, nil)
	wait.For(t, testTimeout, func() bool { s, err := k.queue("pq").State(ctx, "P"); return err == nil && s == StateWaiting })

	k.flow(node("pq", "P2", JobOptions{}, node("cq", "E", JobOptions{})))
	k.must(k.r.Del(ctx, "bull:pq:P2").Err())
	leave("E", false, ErrParentMissing)
}
