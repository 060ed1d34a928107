package queue

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
)

// All roles on a Cluster of three masters, whichever of prefix and name has the hash tag, and one clear error without.
func TestCluster(t *testing.T) {
	t.Parallel()

	c := redistest.StartCluster(t)
	tagged := Options{RedisURL: c.URL, Prefix: "{bull}", Name: "q"}
	single := Options{RedisURL: strings.Replace(c.Nodes[0].URL, "redis:", "redis+cluster:", 1), Name: "{q}"}

	for _, o := range []Options{tagged, single} {
		lifeCycle(t, o)

		key := "bull:{q}:id"
		if o.Prefix != "" {
			key = o.Prefix + ":q:id"
		}

		if c.Owner(key).Client().Exists(t.Context(), key).Val() != 1 {
			t.Errorf("no key %s", key)
		}
	}

	for _, o := range []Options{{RedisURL: c.URL, Name: "q"}, {RedisURL: single.RedisURL, Name: "q"}} {
		if _, err := NewQueue(o); !errors.Is(err, ErrBadName) || !strings.Contains(err.Error(), "{bull}") {
			t.Errorf("without a hash tag: %v", err)
		}
	}
}

// The slot of a busy queue goes to another node, key by key: nothing is lost, split or done twice.
func TestClusterMovesABusyQueue(t *testing.T) {
	t.Parallel()

	c := redistest.StartCluster(t)
	k := &kit{t: t, url: c.URL}
	q := k.queue("{q}")

	var (
		runs     sync.Map
		finished atomic.Int32
	)

	o := k.workerOptions("{q}")
	o.Concurrency = 3
	k.run(o, func(_ context.Context, j *Job) (any, error) {
		n, _ := runs.LoadOrStore(j.ID, new(atomic.Int32))
		n.(*atomic.Int32).Add(1)
		finished.Add(1)

		return 1, nil
	})

	moving, stop := context.WithCancel(t.Context())
	added := make(chan int, 1)

	go func() { added <- keepAdding(moving, q) }()

	wait.For(t, testTimeout, func() bool { return finished.Load() > 20 })

	for range 2 {
		from := c.Owner("bull:{q}:")
		to := c.Nodes[0]

		if to == from {
			to = c.Nodes[1]
		}

		c.Move(c.Slot("bull:{q}:"), from, to, func() {})

		before := finished.Load()

		wait.For(t, testTimeout, func() bool { return finished.Load() > before+20 }, "nothing is done after the move")
	}

	stop()

	want := int64(<-added)
	wait.For(t, testTimeout, func() bool { n, err := q.Counts(t.Context()); return err == nil && n.Completed == want })

	if n, err := q.Counts(t.Context()); err != nil || n != (Counts{Completed: want}) {
		t.Errorf("%+v, %v; %d jobs were added", n, err, want)
	}

	runs.Range(func(id, n any) bool {
		if times := n.(*atomic.Int32).Load(); times != 1 {
			t.Errorf("job %v ran %d times", id, times)
		}

		return true
	})
}

// keepAdding adds jobs until ctx ends and answers how many there are. While keys are under way the cluster says so: later, then.
func keepAdding(ctx context.Context, q *Queue) int {
	n := 0

	for sleep(ctx, 5*time.Millisecond) {
		for {
			_, err := q.Add(context.WithoutCancel(ctx), "n", nil, JobOptions{JobID: "j" + strconv.Itoa(n)})
			if err == nil {
				n++
				break
			}

			sleep(context.WithoutCancel(ctx), 20*time.Millisecond)
		}
	}

	return n
}

// newCluster is a cluster of one node.
func newCluster(t *testing.T) *kit {
	t.Helper()

	k := newKit(t, "--cluster-enabled", "yes")
	k.must(k.r.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err())
	wait.For(t, testTimeout, func() bool { return strings.Contains(k.r.ClusterInfo(t.Context()).Val(), "cluster_state:ok") })
	k.url = strings.Replace(k.url, "redis:", "redis+cluster:", 1)

	return k
}

// clusterBehindProxy is a cluster of one node, which tells its clients to come through the proxy.
func clusterBehindProxy(t *testing.T) (*kit, *proxy) {
	t.Helper()

	k := newCluster(t)
	p := newProxy(t, k.srv.Addr)

	_, port, err := net.SplitHostPort(p.net.Addr())
	k.must(err)
	k.must(k.r.ConfigSet(t.Context(), "cluster-announce-port", port).Err())
	k.must(k.r.ConfigSet(t.Context(), "cluster-announce-ip", "127.0.0.1").Err())

	k.url = strings.Replace(p.url(), "redis:", "redis+cluster:", 1)

	return k, p
}

// A command whose answer is lost is not sent again by the driver behind our back: no job is added twice, and no second one taken under
// the token of the first.
func TestClusterLosesAnswers(t *testing.T) {
	t.Parallel()

	k, p := clusterBehindProxy(t)
	q := k.queue("{q}")
	add := sha(t, func(s *scripts) *script { return s.add })

	k.add(q, "n", nil, JobOptions{}) // loads the script
	p.loseAnswer(add, 1)

	if _, err := q.Add(t.Context(), "n", nil, JobOptions{}); !uncertain(err) {
		t.Errorf("add: %v", err)
	}

	added, err := q.AddBulk(t.Context(), []NewJob{{Name: "n"}}) // loads that one
	k.must(err)
	k.must(q.Remove(t.Context(), added[0].ID))
	p.loseAnswer(sha(t, func(s *scripts) *script { return s.addBulk }), 1)

	if _, err := q.AddBulk(t.Context(), []NewJob{{Name: "n"}}); err == nil {
		t.Error("who adds many is not told of the lost answer")
	}

	if n := k.r.LLen(t.Context(), "bull:{q}:wait").Val(); n != 3 {
		t.Errorf("%d jobs wait, want 3", n)
	}

	for _, pick := range []func(*scripts) *script{
		func(s *scripts) *script { return s.take }, func(s *scripts) *script { return s.finish },
	} {
		p.loseAnswer(sha(t, pick), 1)

		var runs atomic.Int32

		o := k.workerOptions("{q}")
		o.StalledInterval = time.Hour
		_, stop := k.run(o, func(context.Context, *Job) (any, error) { runs.Add(1); return 1, nil })

		wait.For(t, testTimeout, func() bool { c, err := q.Counts(t.Context()); return err == nil && c == Counts{Completed: 3} })
		stop()

		if runs.Load() != 3 {
			t.Errorf("%d runs", runs.Load())
		}

		k.must(q.Pause(t.Context()))
		k.must(q.Obliterate(t.Context(), false))

		for range 3 {
			k.add(q, "n", nil, JobOptions{})
		}
	}

	if p.lostAnswers() != 4 {
		t.Errorf("%d answers lost", p.lostAnswers())
	}
}
