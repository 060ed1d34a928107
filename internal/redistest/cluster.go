package redistest

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
)

// lastSlot is the highest of a Redis Cluster's slots, which begin at 0.
const lastSlot = 16383

// joinTimeout bounds the forming of a cluster or of a set of sentinels, and the vote for a new master, which take 2 to 4 s where nothing else
// runs.
const joinTimeout = 3 * time.Minute

// Cluster is a Redis Cluster of masters that share the slots evenly.
type Cluster struct {
	Nodes []*Server
	URL   string // redis://host:port,host:port,… or rediss://…

	t testing.TB
}

// StartCluster runs three masters with the extra arguments and waits until each of them serves its slots and knows the others.
func StartCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()

	return formCluster(t, func() *Server { return newServer(t, (*Server).plainPort) }, args)
}

// formCluster makes a cluster of servers that are not started yet.
func formCluster(t testing.TB, node func() *Server, args []string) *Cluster {
	t.Helper()

	const masters = 3

	c := &Cluster{t: t}
	addrs := make([]string, masters)

	for i := range addrs {
		c.Nodes = append(c.Nodes, startNode(node(), args))
		addrs[i] = c.Nodes[i].Addr
	}

	scheme, _, _ := strings.Cut(c.Nodes[0].URL, "://")
	c.URL = scheme + "://" + strings.Join(addrs, ",")

	for i, n := range c.Nodes {
		n.do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		n.do("CLUSTER", "ADDSLOTSRANGE", i*(lastSlot+1)/masters, (i+1)*(lastSlot+1)/masters-1)
	}

	for _, n := range c.Nodes[1:] {
		n.do("CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].Port, c.Nodes[0].busPort())
	}

	wait.For(t, joinTimeout, func() bool {
		for _, n := range c.Nodes {
			if !n.serves(masters) {
				return false
			}
		}

		return true
	}, "the cluster does not form")

	return c
}

// startNode runs a server in cluster mode. The port of the nodes' own talk is free, too: the default, 10000 above the other, may be taken
// or above the last port there is.
func startNode(s *Server, args []string) *Server {
	s.t.Helper()

	base, bus := s.arguments, 0
	s.arguments = func(s *Server) []string {
		bus = s.freePort()

		return append(append(base(s), "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus)), args...)
	}
	s.start()

	return s
}

// Owner is the node that has the key's slot.
func (c *Cluster) Owner(key string) *Server {
	c.t.Helper()

	id := c.Nodes[0].slotOwner(c.Slot(key))

	for _, n := range c.Nodes {
		if n.do("CLUSTER", "MYID") == id {
			return n
		}
	}

	c.t.Fatalf("redistest: nobody has the slot of %s", key)

	return nil
}

// Slot is the key's slot.
func (c *Cluster) Slot(key string) int {
	c.t.Helper()

	slot, _ := c.Nodes[0].do("CLUSTER", "KEYSLOT", key).(int64) // Redis says so

	return int(slot)
}

// Move gives a slot to another node the way redis-cli does, a few keys at a time, while clients go on. between runs after each step.
func (c *Cluster) Move(slot int, from, to *Server, between func()) {
	c.t.Helper()

	to.do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.do("CLUSTER", "MYID"))
	from.do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.do("CLUSTER", "MYID"))

	for {
		keys, _ := from.do("CLUSTER", "GETKEYSINSLOT", slot, 1).([]any)
		if len(keys) == 0 {
			break
		}

		from.do("MIGRATE", "127.0.0.1", to.Port, keys[0], 0, 5000)
		between()
	}

	for _, n := range []*Server{to, from} { // the new owner first, so that no moment is without one
		n.do("CLUSTER", "SETSLOT", slot, "NODE", to.do("CLUSTER", "MYID"))
	}
}

func (s *Server) busPort() string {
	s.t.Helper()

	// "<id> host:port@bus flags …" of the node itself
	line, _ := s.do("CLUSTER", "NODES").(string)
	_, rest, _ := strings.Cut(line, "@")
	port, _, _ := strings.Cut(rest, " ")
	port, _, _ = strings.Cut(port, ",")

	return port
}

func (s *Server) serves(nodes int) bool {
	s.t.Helper()

	info, _ := s.do("CLUSTER", "INFO").(string)

	return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(nodes)) &&
		strings.Contains(info, "cluster_slots_assigned:"+strconv.Itoa(lastSlot+1))
}

// slotOwner is the id of the node that has the slot, as this one knows it.
func (s *Server) slotOwner(slot int) any {
	s.t.Helper()

	ranges, _ := s.do("CLUSTER", "SLOTS").([]any)

	for _, r := range ranges {
		// {first slot, last slot, {host, port, id, …}}
		row, _ := r.([]any)
		first, _ := row[0].(int64)
		last, _ := row[1].(int64)

		if node, ok := row[2].([]any); ok && int(first) <= slot && slot <= int(last) {
			return node[2]
		}
	}

	return nil
}

// do sends one command, and ends the test if it fails.
func (s *Server) do(args ...any) any {
	s.t.Helper()

	client := s.newClient()
	defer client.Close()

	reply, err := client.Do(s.t.Context(), args...).Result()
	if err != nil {
		s.t.Fatalf("redistest: %v: %v", args[0], err)
	}

	return reply
}
