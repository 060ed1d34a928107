package queue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
)

// mixed is a queue that Go, Node 5 and Node 6 share. Each side can pause, add and resume.
type mixed struct {
	*kit

	q     *Queue
	nodes map[string]*nodeSide
	ids   []string
}

func newMixed(t *testing.T) *mixed {
	t.Helper()

	k := newKit(t)

	return &mixed{kit: k, q: k.queue("q"), nodes: map[string]*nodeSide{"5": k.startNode("5"), "6": k.startNode("6")}}
}

func (m *mixed) pause(side string) {
	m.t.Helper()

	if n := m.nodes[side]; n != nil {
		n.ask(nil, map[string]any{"op": "pause"})
	} else {
		m.must(m.q.Pause(m.t.Context()))
	}
}

func (m *mixed) resume(side string) {
	m.t.Helper()

	if n := m.nodes[side]; n != nil {
		n.ask(nil, map[string]any{"op": "resume"})
	} else {
		m.must(m.q.Resume(m.t.Context()))
	}
}

func (m *mixed) put(side string, priority int) {
	m.t.Helper()

	id := "j" + strconv.Itoa(len(m.ids))
	m.ids = append(m.ids, id)

	if n := m.nodes[side]; n != nil {
		n.add("n", map[string]any{"n": 1}, map[string]any{"jobId": id, "priority": priority})
	} else {
		m.add(m.q, "n", map[string]int{"n": 1}, JobOptions{JobID: id, Priority: priority})
	}
}

// lost are the jobs that are in no list any more, though nobody has taken or removed them.
func (m *mixed) lost() (ids []string) {
	m.t.Helper()

	for _, id := range m.ids {
		if state, err := m.q.State(m.t.Context(), id); err != nil || state != StateWaiting && state != StatePrioritized {
			ids = append(ids, id)
		}
	}

	return ids
}

// clear begins anew; the Node sides stay.
func (m *mixed) clear() {
	m.t.Helper()
	m.must(m.r.FlushDB(m.t.Context()).Err())
	m.ids = nil
}

// Who pauses, who adds meanwhile and who resumes, in every order: nothing is lost but what upstreamLoses.
func TestMixedPausesLoseNothing(t *testing.T) {
	t.Parallel()

	m := newMixed(t)
	sides := []string{"go", "5", "6"}

	for _, pauser := range sides {
		for _, adder := range sides {
			for _, resumer := range sides {
				order := fmt.Sprintf("%s pauses, %s adds, %s resumes", pauser, adder, resumer)

				m.clear()

				for _, s := range sides {
					m.put(s, 0)
				}

				m.put("go", 2)
				m.pause(pauser)
				m.put(adder, 0)
				m.put(adder, 1)
				m.bothListsAreRead(order)
				m.resume(resumer)
				m.bothListsAreRead(order)

				lost := m.lost()
				if known := upstreamLoses(pauser, adder, resumer); (len(lost) > 0) != known {
					t.Errorf("%s: lost %v, known to lose: %v", order, lost, known)
				}
			}
		}
	}
}

// upstreamLoses are the orders of protocol.md 5.1 in which a major 5 client renames one list over the other although Go has done nothing
// wrong: nobody but that client can prevent it.
func upstreamLoses(pauser, adder, resumer string) bool {
	if resumer != "5" {
		return false // 6 and Go merge
	}

	switch pauser {
	case "5":
		return adder == "6" // adds to wait beside the moved jobs
	default:
		return adder == "5" // makes the list of moved jobs, which is renamed over wait
	}
}

// bothListsAreRead: counts, states and lists know all jobs that are there, in whichever list.
func (m *mixed) bothListsAreRead(order string) {
	m.t.Helper()

	there := m.r.LLen(m.t.Context(), "bull:q:wait").Val() + m.r.LLen(m.t.Context(), "bull:q:paused").Val()

	c, err := m.q.Counts(m.t.Context())
	m.must(err)

	ids, err := m.q.IDs(m.t.Context(), StateWaiting, 0, 100)
	m.must(err)

	if c.Waiting != there || int64(len(ids)) != there || c.Prioritized != 2 {
		m.t.Errorf("%s: %d jobs in both lists, counted %+v, listed %v", order, there, c, ids)
	}
}

// Paused by major 5 or by Go, worked on by all three: every job that comes back while the queue is paused – a retry at once, one put back,
// a stalled one, a retried failed one, a promoted one – is there after the resume of each side.
func TestMixedReturnsWhilePaused(t *testing.T) {
	t.Parallel()

	m := newMixed(t)

	for _, pauser := range []string{"go", "5", "6"} {
		for _, resumer := range []string{"go", "5", "6"} {
			m.clear()
			m.returnWhilePaused(fmt.Sprintf("%s pauses, %s resumes", pauser, resumer), func() { m.pause(pauser) }, func() { m.resume(resumer) })
		}
	}
}

func (m *mixed) returnWhilePaused(order string, pause, resume func()) {
	m.t.Helper()

	ctx := m.t.Context()
	w := m.worker("q")
	put := func(id string, o JobOptions) {
		o.JobID = id
		m.ids = append(m.ids, id)
		m.add(m.q, "n", map[string]int{"n": 1}, o)
	}
	claim := func(id string) *hold {
		h := m.take(w, "token-"+id)
		if h == nil || h.job.ID != id {
			m.t.Fatalf("%s: took %+v, not %s", order, h, id)
		}

		return h
	}

	put("broken", JobOptions{})
	m.expect(w.fail(claim("broken"), errBoom), OutcomeFailed)

	for _, id := range []string{"retried", "back", "stuck", "ranked"} {
		put(id, JobOptions{Attempts: 3})
	}

	retried, back := claim("retried"), claim("back")
	claim("stuck")
	put("late", JobOptions{Delay: time.Hour})
	put("waits", JobOptions{})
	pause()

	m.must(m.q.ChangePriority(ctx, "ranked", 3, false))
	m.expect(w.fail(retried, errBoom), OutcomeRetried)
	m.expect(w.putBack(back), OutcomePutBack)
	m.must(m.q.Retry(ctx, "broken"))
	m.must(m.q.Promote(ctx, "late"))
	m.must(m.r.Del(ctx, "bull:q:stuck:lock").Err())

	for range 2 {
		m.must(m.r.Del(ctx, "bull:q:stalled-check").Err())

		_, err := w.checkStalledOnce(ctx)
		m.must(err)
	}

	if h := m.take(w, "too early"); h != nil {
		m.t.Errorf("%s: took %s of a paused queue", order, h.job.ID)
	}

	resume()

	if lost := m.lost(); len(lost) > 0 {
		m.t.Errorf("%s: lost %v", order, lost)
	}
}

// Each side retries a failed job with a priority as its major does; all sides' workers take it all the same.
func TestMixedRetries(t *testing.T) {
	t.Parallel()

	m := newMixed(t)
	ctx := t.Context()
	where := map[string]string{}

	for _, side := range []string{"go", "5", "6"} {
		w := m.worker("q")
		m.add(m.q, "n", nil, JobOptions{JobID: "failed-" + side, Priority: 3})
		m.expect(w.fail(m.take(w, "t"), errBoom), OutcomeFailed)

		if n := m.nodes[side]; n != nil {
			n.ask(nil, map[string]any{"op": "retry", "id": "failed-" + side})
		} else {
			m.must(m.q.Retry(ctx, "failed-"+side))
		}

		state, err := m.q.State(ctx, "failed-"+side)
		m.must(err)

		where[side] = string(state)
		m.expect(w.complete(m.take(w, "t"), 1), OutcomeCompleted)
	}

	if got := fmt.Sprint(where); got != "map[5:waiting 6:prioritized go:prioritized]" {
		t.Errorf("retried jobs are %s", got)
	}

	// All work: the order of service is that of the list, then of the priorities, whoever has added.
	m.pause("go")

	for i, side := range []string{"5", "6", "go", "go", "6", "5"} {
		m.put(side, i%3)
	}

	var order []string

	o := m.workerOptions("q")
	_, stop := m.run(o, func(_ context.Context, j *Job) (any, error) { order = append(order, j.ID); return 1, nil })
	m.resume("6")
	wait.For(t, testTimeout, func() bool { c, err := m.q.Counts(ctx); return err == nil && c.Completed == 9 })
	stop()

	if want := []string{"j0", "j3", "j1", "j4", "j2", "j5"}; !slices.Equal(order, want) {
		t.Errorf("served %s, want %s", strings.Join(order, " "), strings.Join(want, " "))
	}
}
