package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/wait"
)

// MasterName is the name under which the sentinels of a Replicated know its master.
const MasterName = "mymaster"

const sentinels = 3

// Replicated is a master with replicas, watched by three sentinels that put a replica in the place of a master that is gone for 3 s: one on
// a busy machine may well be silent for one.
type Replicated struct {
	// Servers are the master of the beginning and its replicas.
	Servers   []*Server
	Sentinels []*Server
	URL       string // redis+sentinel://host:port,…/mymaster or rediss+sentinel://…

	t testing.TB
}

// StartReplicated runs the servers with the extra arguments, and the sentinels, and waits until all of them know each other.
func StartReplicated(t testing.TB, replicas int, args ...string) *Replicated {
	t.Helper()

	return replicate(t, replicas, func(more ...string) *Server { return Start(t, append(more, args...)...) }, plainSentinel)
}

// replicate makes a set of servers that start starts, and of sentinels.
func replicate(t testing.TB, replicas int, start func(more ...string) *Server, port sentinelPort) *Replicated {
	t.Helper()

	r := &Replicated{t: t, Servers: []*Server{start()}}
	master := r.Servers[0]

	for range replicas {
		r.Servers = append(r.Servers, start("--replicaof", "127.0.0.1 "+strconv.Itoa(master.Port)))
	}

	// A sentinel that finds a replica missing at its first look asks again after 10 s only.
	wait.For(t, joinTimeout, func() bool { return master.infoHas("replication", "state=online", replicas) }, "replicas do not follow")

	addrs := make([]string, sentinels)

	for i := range addrs {
		r.Sentinels = append(r.Sentinels, startSentinel(t, master, port))
		addrs[i] = r.Sentinels[i].Addr
	}

	scheme, _, _ := strings.Cut(master.URL, "://")
	r.URL = scheme + "+sentinel://" + strings.Join(addrs, ",") + "/" + MasterName
	known := fmt.Sprintf("status=ok,address=%s,slaves=%d,sentinels=%d", master.Addr, replicas, sentinels)

	wait.For(t, joinTimeout, func() bool {
		for _, s := range r.Sentinels {
			if !s.infoHas("sentinel", known, 1) {
				return false
			}
		}

		return true
	}, "the sentinels do not find each other")

	return r
}

// Master is the server that the first sentinel takes for the master.
func (r *Replicated) Master() *Server {
	r.t.Helper()

	addr, _ := r.Sentinels[0].do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).([]any)

	for _, s := range r.Servers {
		if len(addr) == 2 && s.Addr == net.JoinHostPort(fmt.Sprint(addr[0]), fmt.Sprint(addr[1])) {
			return s
		}
	}

	r.t.Fatalf("redistest: the sentinels' master is %v", addr)

	return nil
}

// Failover makes the sentinels put a replica in the place of a master that is well, and waits until all of them say so.
func (r *Replicated) Failover() {
	r.t.Helper()

	old := r.Master()
	r.Sentinels[0].do("SENTINEL", "FAILOVER", MasterName)
	r.AwaitMasterAfter(old)
}

// AwaitMasterAfter waits until all sentinels name another master than the old one, and that one takes writes.
func (r *Replicated) AwaitMasterAfter(old *Server) {
	r.t.Helper()

	wait.For(r.t, joinTimeout, func() bool {
		for _, s := range r.Sentinels {
			if s.infoHas("sentinel", "address="+old.Addr+",", 1) {
				return false
			}
		}

		return r.Master().infoHas("replication", "role:master", 1)
	}, "no new master")
}

// sentinelPort prepares a sentinel that has not started yet and answers the lines of its configuration that say how it is reached.
type sentinelPort func(s *Server) (lines func() []string)

func plainSentinel(s *Server) (lines func() []string) {
	return func() []string { return []string{"port " + strconv.Itoa(s.Port)} }
}

// startSentinel runs a sentinel, which keeps what it learns in its configuration file.
func startSentinel(t testing.TB, master *Server, port sentinelPort) *Server {
	t.Helper()

	s := newServer(t, nil)
	lines := port(s)
	s.arguments = func(s *Server) []string {
		path := filepath.Join(s.dir, "sentinel.conf")
		if err := os.WriteFile(path, []byte(sentinelConfig(s, master, lines())), 0o600); err != nil {
			s.t.Fatalf("redistest: %v", err)
		}

		return []string{path, "--sentinel"}
	}
	s.start()

	return s
}

func sentinelConfig(s, master *Server, port []string) string {
	return strings.Join(append(port,
		"bind 127.0.0.1",
		"dir "+s.dir,
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", MasterName, master.Port, sentinels/2+1),
		"sentinel down-after-milliseconds "+MasterName+" 3000",
		"sentinel failover-timeout "+MasterName+" 5000",
		"",
	), "\n")
}

// infoHas reports whether the text is there so many times in a section of INFO; a server that does not answer has nothing.
func (s *Server) infoHas(section, text string, times int) bool {
	s.t.Helper()

	client := s.newClient()
	defer client.Close()

	return strings.Count(client.Info(s.t.Context(), section).Val(), text) >= times
}
