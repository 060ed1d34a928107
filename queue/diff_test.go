package queue

import (
	"bufio"
	"encoding/json"
	goflag "flag"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/need"
)

// diffTime is how long new sequences are begun; the longer mode is go test -run TestDifferential -queue.diff=30m -timeout=40m.
var diffTime = goflag.Duration("queue.diff", 15*time.Second, "how long the differential test begins new sequences")

// diffStep is one operation as all sides are told it. Which fields count depends on Op.
type diffStep struct {
	Op    string          `json:"op"`
	Now   int64           `json:"now"`
	ID    string          `json:"id,omitempty"`
	Token string          `json:"token,omitempty"`
	Text  string          `json:"text,omitempty"`
	State string          `json:"state,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`
	Opts  map[string]any  `json:"opts,omitempty"`
	Jobs  []diffStep      `json:"jobs,omitempty"`
	N     int64           `json:"n"`
	Limit int             `json:"limit"`
	Flag  bool            `json:"flag"`

	options JobOptions
	advance time.Duration // before the step
}

// diffAnswer is what a side says of a step: a value, or that it was refused.
type diffAnswer struct {
	OK    any    `json:"ok"`
	Fault string `json:"fault"`
}

// diffNode is a Node process.
type diffNode struct {
	in    io.Writer
	lines *bufio.Scanner
	proc  *child.Process
}

func startDiffNode(t *testing.T, k *kit, major string, db int) *diffNode {
	t.Helper()

	dir := need.Node(t)
	host, port, err := net.SplitHostPort(k.srv.Addr)
	k.must(err)

	cmd := exec.Command(need.Program(t, "node"), "testdata/diff.cjs", "bullmq"+major, host, port, strconv.Itoa(db), "q")
	cmd.Env = append(cmd.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"))
	in, err := cmd.StdinPipe()
	k.must(err)
	out, err := cmd.StdoutPipe()
	k.must(err)
	proc, err := child.Start(cmd)
	k.must(err)
	t.Cleanup(proc.Kill)

	n := &diffNode{in: in, lines: bufio.NewScanner(out), proc: proc}
	n.lines.Buffer(nil, 1<<20)

	if !n.lines.Scan() {
		t.Fatalf("node has not started: %s", proc.Output())
	}

	return n
}

func (n *diffNode) do(s diffStep) (a diffAnswer) {
	text, err := json.Marshal(s)
	if err == nil {
		_, err = n.in.Write(append(text, '\n'))
	}

	if err != nil || !n.lines.Scan() {
		return diffAnswer{Fault: fmt.Sprintf("node is gone: %v %s", err, n.proc.Output())}
	}

	if err := json.Unmarshal(n.lines.Bytes(), &a); err != nil {
		a.Fault = err.Error()
	}

	return a
}

// TestDifferential lets Node 6, Node 5 and this package do the same random steps, each in a database of its own, and compares all keys
// and events after each step. All sides work at the same virtual time, so that every time stamp and score has to be equal to the bit.
func TestDifferential(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	six, five := startDiffNode(t, k, "6", 1), startDiffNode(t, k, "5", 2)

	dbs := make([]*redis.Client, 3)
	for db := range dbs {
		dbs[db] = redis.NewClient(&redis.Options{Addr: k.srv.Addr, DB: db, Protocol: 2})
		t.Cleanup(func() { _ = dbs[db].Close() })
	}

	var expired atomic.Bool // outside of the bubble time goes on by itself

	timer := time.AfterFunc(*diffTime, func() { expired.Store(true) })
	defer timer.Stop()

	run := &diffRun{t: t, expired: &expired, nodes: []*diffNode{six, five}, dbs: dbs}

	synctest.Test(t, func(t *testing.T) {
		for !run.over() && !t.Failed() {
			run.round(t, k.url)
		}
	})
	t.Logf("%d sequences, %d steps; of these %d steps also compared with major 5", run.sequences, run.steps, run.fiveSteps)
}

// diffRun is the whole test.
type diffRun struct {
	t                           *testing.T
	expired                     *atomic.Bool
	failed                      bool
	nodes                       []*diffNode // major 6, major 5
	dbs                         []*redis.Client
	sequences, steps, fiveSteps int
}

// leastSequences are tried in any case: on a machine that is busy with other things that takes longer than the time that was set.
const leastSequences = 10

// over reports whether enough was tried.
func (r *diffRun) over() bool { return r.expired.Load() && r.sequences >= leastSequences }

// untimed hides t.Deadline from rapid: it may not be asked inside of a bubble.
type untimed struct{ rapid.TB }

// round is one call of rapid with its own clients, which have to be gone before the bubble ends.
func (r *diffRun) round(t *testing.T, url string) {
	g := newDiffGo(t, url)
	defer g.close()

	rapid.Check(untimed{t}, func(rt *rapid.T) {
		if r.over() && !r.failed {
			return
		}

		r.sequence(rt, g)
	})
}

func (r *diffRun) sequence(rt *rapid.T, g *diffGo) {
	r.reset(rt, g)

	m := &diffModel{plain: rapid.Bool().Draw(rt, "within what both majors do alike")}
	withFive := true
	n := rapid.IntRange(1, 40).Draw(rt, "steps")

	for range n {
		s, apart := m.next(rt)
		time.Sleep(s.advance) //nolint:forbidigo // inside of a bubble: this is how its clock goes on

		s.Now = time.Now().UnixMilli()
		withFive = withFive && !apart

		want := r.nodes[0].do(s)
		r.compare(rt, s, "major 6", 1, g.do(s), want)

		if withFive {
			r.compare(rt, s, "major 5", 2, g.last, r.nodes[1].do(s))
			r.fiveSteps++
		}

		m.learn(s, want)
		r.steps++
	}

	r.sequences++
}

func (r *diffRun) reset(rt *rapid.T, g *diffGo) {
	g.reset()

	for db, c := range r.dbs {
		if err := c.FlushDB(r.t.Context()).Err(); err != nil {
			rt.Fatal(err)
		}

		// Node's Queue object writes it on opening.
		if err := c.HSet(r.t.Context(), "bull:q:meta", "opts.maxLenEvents", "10000").Err(); err != nil {
			rt.Fatal(err)
		}

		if db > 0 {
			r.nodes[db-1].do(diffStep{Op: "reset"})
		}
	}
}

func (r *diffRun) compare(rt *rapid.T, s diffStep, side string, db int, got, want diffAnswer) {
	text, _ := json.Marshal(s)

	if (got.Fault == "") != (want.Fault == "") {
		r.failed = true
		rt.Fatalf("%s: go says %+v, %s says %+v", text, got, side, want)
	}

	if got.Fault == "" {
		w, g := throughJSON(want.OK), throughJSON(got.OK)
		if s.Op == "clean" { // which jobs went counts, not in which order they are named
			w, g = sorted(w), sorted(g)
		}

		if d := cmp.Diff(w, g); d != "" {
			r.failed = true
			rt.Fatalf("%s: answers differ (-%s +go):\n%s", text, side, d)
		}
	}

	theirs, ours := r.snapshot(rt, db), r.snapshot(rt, 0)
	if d := cmp.Diff(theirs, ours); d != "" {
		r.failed = true
		rt.Fatalf("%s: Redis differs (-%s +go):\n%s", text, side, d)
	}
}

// throughJSON makes answers of both languages comparable.
func throughJSON(v any) (out any) {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}

	_ = json.Unmarshal(text, &out) // it is what Marshal wrote

	if list, ok := out.([]any); ok && len(list) == 0 {
		return nil // nil and empty lists are the same
	}

	return out
}

func sorted(v any) any {
	list, _ := v.([]any)
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })

	return list
}
