package queue

import (
	"context"
	"errors"
	"strings"
	"time"
)

// node is a job of a flow, named after its id.
func node(queue, id string, o JobOptions, children ...FlowJob) FlowJob {
	o.JobID = id

	return FlowJob{Queue: queue, Name: strings.ToLower(id), Opts: o, Children: children}
}

func (k *kit) flows() *Flows {
	k.t.Helper()

	f, err := NewFlows(FlowOptions{RedisURL: k.url})
	k.must(err)
	k.t.Cleanup(func() { _ = f.Close() })

	return f
}

func (k *kit) flow(root FlowJob) FlowNode {
	k.t.Helper()

	added, err := k.flows().Add(k.t.Context(), root)
	k.must(err)

	return added
}

// family is parent P of queue pq with children in cq.
func (s *scene) family(options func(i int) JobOptions, ids ...string) (cq *Worker, pq *Worker) {
	var children []FlowJob

	for i, id := range ids {
		child := node("cq", id, options(i))
		child.Data = map[string]int{"i": i + 1}
		children = append(children, child)
	}

	s.flow(node("pq", "P", JobOptions{}, children...))

	return s.worker("cq"), s.worker("pq")
}

func (s *scene) endChild(w *Worker, end func(h *hold) Outcome, want Outcome) {
	s.t.Helper()

	h := s.kit.take(w, "c")
	if h == nil {
		s.t.Fatal("no child to take")
	}

	s.expect(end(h), want)
}

func none(int) JobOptions { return JobOptions{} }

func familyScenes() map[string]func(*scene) {
	bad := errors.New("bad")

	fail := func(w *Worker) func(h *hold) Outcome { return func(h *hold) Outcome { return w.fail(h, bad) } }
	done := func(w *Worker, v any) func(h *hold) Outcome { return func(h *hold) Outcome { return w.complete(h, v) } }

	return map[string]func(*scene){
		"53": func(s *scene) { s.family(none, "C1", "C2") },
		"54": func(s *scene) {
			cq, _ := s.family(none, "C1", "C2")
			s.endChild(cq, done(cq, 11), OutcomeCompleted)
		},
		"56": func(s *scene) {
			cq, _ := s.family(func(int) JobOptions { return JobOptions{FailParentOnFailure: true} }, "C1", "C2")
			s.endChild(cq, fail(cq), OutcomeFailed)
			s.work("pq", s.workerOptions("pq"), func(context.Context, *Job) (any, error) { s.t.Error("handler called"); return nil, nil })
			s.must(s.r.Del(s.t.Context(), "bull:pq:stalled-check").Err()) // the observed worker ran without the check
		},
		"58": func(s *scene) {
			cq, _ := s.family(func(int) JobOptions { return JobOptions{IgnoreDependencyOnFailure: true} }, "C1", "C2")
			s.endChild(cq, fail(cq), OutcomeFailed)
			s.endChild(cq, done(cq, 2), OutcomeCompleted)
		},
		"59": func(s *scene) {
			cq, _ := s.family(func(int) JobOptions { return JobOptions{RemoveDependencyOnFailure: true} }, "C1", "C2")
			s.endChild(cq, fail(cq), OutcomeFailed)
		},
		"61": func(s *scene) {
			cq, _ := s.family(func(int) JobOptions { return JobOptions{RemoveOnComplete: &Keep{Now: true}} }, "C1", "C2")
			s.endChild(cq, done(cq, 5), OutcomeCompleted)
		},
		"63": func(s *scene) {
			q, w := s.queue("cq"), s.worker("cq")
			s.add(q, "c", nil, JobOptions{JobID: "C"})
			s.endChild(w, done(w, 7), OutcomeCompleted)
			s.flow(node("pq", "P", JobOptions{}, node("cq", "C", JobOptions{})))
		},
		"64": func(s *scene) {
			_, err := s.q.Add(s.t.Context(), "c", nil, JobOptions{Parent: &ParentRef{ID: "nope", Queue: "bull:pq"}})
			if !errors.Is(err, ErrParentMissing) {
				s.t.Errorf("got %v, want %v", err, ErrParentMissing)
			}
		},
		"65": func(s *scene) {
			s.family(none, "C1", "C2")
			s.must(s.queue("pq").Remove(s.t.Context(), "P"))
		},
		"67": func(s *scene) {
			cq, _ := s.family(func(int) JobOptions { return JobOptions{FailParentOnFailure: true} }, "C1", "C2")
			s.endChild(cq, fail(cq), OutcomeFailed)
			s.must(s.queue("cq").Retry(s.t.Context(), "C1"))
		},
		"92": func(s *scene) {
			s.flow(node("gq", "G", JobOptions{Priority: 3},
				node("pq", "P", JobOptions{Delay: 20 * time.Second}, node("cq", "C", JobOptions{}))))

			cq := s.worker("cq")
			s.endChild(cq, done(cq, 1), OutcomeCompleted)
		},
		"94":  playUnsuccessful,
		"106": playDelayedParent,
		"62":  playDynamicChildren,
		"93": func(s *scene) {
			s.family(none, "C1", "C2")
			j, err := s.queue("cq").Job(s.t.Context(), "C1")
			s.must(err)

			if left, err := j.LeaveParent(s.t.Context()); err != nil || !left {
				s.t.Errorf("left %v, %v", left, err)
			}
		},
		"107": func(s *scene) {
			s.family(none, "C1", "C2")
			s.must(s.queue("pq").RemoveAlone(s.t.Context(), "P"))
		},
		"109": func(s *scene) {
			q, w := s.queue("cq"), s.worker("cq")
			s.add(q, "c", nil, JobOptions{JobID: "C"})
			s.endChild(w, done(w, 7), OutcomeCompleted)
			s.flow(node("pq", "P", JobOptions{}, node("cq", "C", JobOptions{}), node("cq", "D", JobOptions{})))
		},
		"112": func(s *scene) {
			cq, _ := s.family(func(int) JobOptions { return JobOptions{RemoveOnFail: &Keep{Now: true}} }, "C1")
			s.endChild(cq, fail(cq), OutcomeFailed)
		},
		"114": func(s *scene) {
			s.flow(node("q", "P", JobOptions{}, node("q", "C", JobOptions{})))
			_, err := s.q.Drain(s.t.Context(), false)
			s.must(err)
		},
		"115": func(s *scene) {
			s.flow(node("pq", "P", JobOptions{}, node("cq", "C", JobOptions{})))
			_, err := s.queue("cq").Drain(s.t.Context(), false)
			s.must(err)
		},
	}
}

// parentAtWork is a parent that runs and has a pending child that may fail it.
func parentAtWork(s *scene) (pq, cq *Worker, parent *hold) {
	s.add(s.queue("pq"), "p", nil, JobOptions{JobID: "P"})
	pq, cq = s.worker("pq"), s.worker("cq")
	parent = s.kit.take(pq, "t1")
	s.add(s.queue("cq"), "c", nil, JobOptions{JobID: "C", FailParentOnFailure: true, Parent: &ParentRef{ID: "P", Queue: "bull:pq"}})

	return pq, cq, parent
}

func playUnsuccessful(s *scene) {
	pq, cq, parent := parentAtWork(s)
	s.endChild(cq, func(h *hold) Outcome { return cq.fail(h, errors.New("bad")) }, OutcomeFailed)

	err := pq.finish(parent, "completed", []byte("1"), nil, nil)
	if !errors.Is(err, ErrFailedChildren) {
		s.t.Errorf("got %v, want %v", err, ErrFailedChildren)
	}
}

func playDelayedParent(s *scene) {
	pq, cq, parent := parentAtWork(s)
	s.expect(pq.delay(parent, time.Minute), OutcomeDelayed)
	s.endChild(cq, func(h *hold) Outcome { return cq.fail(h, errors.New("bad")) }, OutcomeFailed)
}

func playDynamicChildren(s *scene) {
	s.add(s.queue("pq"), "p", nil, JobOptions{JobID: "P"})
	pq, cq := s.worker("pq"), s.worker("cq")
	parent := s.kit.take(pq, "t1")
	s.add(s.queue("cq"), "c", nil, JobOptions{JobID: "C", Parent: new(parent.job.Ref())})
	s.expect(pq.conclude(parent, nil, WaitForChildren()), OutcomeWaitingChildren)
	s.endChild(cq, func(h *hold) Outcome { return cq.complete(h, "cv") }, OutcomeCompleted)

	again := s.kit.take(pq, "t3")

	none, err := pq.scripts.waitChildren.code(s.t.Context(), pq.client, pq.keys, "P", "P", "t3", time.Now().UnixMilli(), "")
	if err != nil || none != 1 || again.job.ID != "P" {
		s.t.Errorf("the parent has no pending child: %d, %v", none, err)
	}
}
