package queue

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
)

// playTimeout is for what takes seconds at most on an idle machine.
const playTimeout = 2 * time.Minute

// cast is a queue's producer, worker and readers over TLS, each as a user with the rights that the documents give it, and with a
// certificate of its own.
type cast struct {
	kit

	q       *Queue
	results *Results

	mu   sync.Mutex
	seen []string // jobs whose end was among the events
}

// secured is the address of servers over TLS that want certificates of their clients.
func secured(address string, authority *redistest.Authority) string {
	certFile, keyFile := authority.Issue("client")
	query := url.Values{queryCAFile: {authority.CAFile}, queryCertFile: {certFile}, queryKeyFile: {keyFile}}.Encode()

	if strings.Contains(address, "?") {
		return address + "&" + query
	}

	return address + "?" + query
}

// admit gives the users of the documents, with more rights, to servers.
func admit(t *testing.T, servers []*redistest.Server, more []any, roles ...string) {
	t.Helper()

	users := documentedUsers(t)

	for _, s := range servers {
		for _, role := range roles {
			if err := s.Client().Do(t.Context(), append(slices.Clone(users[role]), more...)...).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// refusedAnything tells of commands that servers have refused their users.
func refusedAnything(t *testing.T, servers []*redistest.Server) {
	t.Helper()

	for _, s := range servers {
		if denied, err := s.Client().Do(t.Context(), "ACL", "LOG").Slice(); err != nil || len(denied) > 0 {
			t.Errorf("Redis has refused: %v, %v", denied, err)
		}
	}
}

func newCast(t *testing.T, address, name string) *cast {
	t.Helper()

	c := &cast{kit: kit{t: t, url: address}}
	as := func(user string) Options {
		o := c.as(user)
		o.Name = name

		return o
	}

	c.q = c.open(as("producer"))

	wo := DefaultWorkerOptions()
	wo.Options, wo.WorkerName = as("worker"), "w1"
	c.run(wo, func(_ context.Context, j *Job) (any, error) { return j.ID, nil })

	var err error

	c.results, err = NewResults(as("reader"))
	c.must(err)

	events, err := NewEvents(as("reader"))
	c.must(err)

	ctx, cancel := context.WithCancel(context.Background())

	var readers sync.WaitGroup

	readers.Go(func() { _ = c.results.Run(ctx) })
	readers.Go(func() { _ = events.Run(ctx, c.note) })
	t.Cleanup(func() { cancel(); readers.Wait() })
	<-c.results.Ready()
	<-events.Ready()

	return c
}

func (c *cast) note(e Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	if e.Name == "completed" {
		c.seen = append(c.seen, e.JobID)
	}

	return nil
}

// plays adds a job by its id, again and again if need be, until it is there, and waits until everybody has done his part.
func (c *cast) plays(id string) {
	c.t.Helper()

	wait.For(c.t, playTimeout, func() bool {
		_, err := c.q.Add(c.t.Context(), "n", nil, JobOptions{JobID: id})

		return err == nil
	}, "job %s is not added", id)

	ctx, cancel := context.WithTimeout(c.t.Context(), playTimeout)
	defer cancel()

	if value, err := c.results.Wait(ctx, id); err != nil || string(value) != `"`+id+`"` {
		c.t.Fatalf("result of job %s: %s, %v", id, value, err)
	}

	wait.For(c.t, playTimeout, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()

		return slices.Contains(c.seen, id)
	}, "the end of job %s is not among the events", id)
}

// isListed: the worker has its name at the master, for the tools that look for it there.
func (c *cast) isListed(sets *redistest.Replicated) {
	c.t.Helper()

	client := sets.Master().Client()
	defer client.Close()

	wait.For(c.t, playTimeout, func() bool {
		return strings.Contains(client.ClientList(c.t.Context()).Val(), ":w:w1 ")
	}, "the worker is not listed")
}

// All roles over TLS on a Cluster, each as its own user, and after the queue has gone to another node.
func TestClusterOverTLS(t *testing.T) {
	t.Parallel()

	authority := redistest.NewAuthority(t)
	nodes := authority.StartCluster()
	admit(t, nodes.Nodes, []any{"+asking", "+cluster|slots", "+command"}, "producer", "worker", "reader")

	address := secured(nodes.URL, authority)
	lifeCycle(t, Options{RedisURL: address, Prefix: "{life}", Name: "q"})

	c := newCast(t, address, "{q}")
	c.plays("before")

	from, to := nodes.Owner("bull:{q}:"), nodes.Nodes[0]
	if to == from {
		to = nodes.Nodes[1]
	}

	nodes.Move(nodes.Slot("bull:{q}:"), from, to, func() {})
	c.plays("after")
	refusedAnything(t, nodes.Nodes)
}

// All roles over TLS to sentinels and servers, each as its own user at the servers and as another one at the sentinels, and after a failover.
func TestSentinelOverTLS(t *testing.T) {
	t.Parallel()

	authority := redistest.NewAuthority(t)
	sets := authority.StartReplicated(1)
	admit(t, sets.Servers, nil, "producer", "worker", "reader")
	admit(t, sets.Sentinels, nil, "watcher")

	address := secured(sets.URL+"?sentinel_username=watcher&sentinel_password=SECRET", authority)
	lifeCycle(t, Options{RedisURL: address, Prefix: "life", Name: "q"})

	c := newCast(t, address, "q")
	c.plays("before")
	c.isListed(sets)
	sets.Failover()
	c.plays("after")
	c.isListed(sets)
	refusedAnything(t, append(sets.Servers, sets.Sentinels...))
}
