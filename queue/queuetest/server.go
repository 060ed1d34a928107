package queuetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// errDown is what a client meets that dials while the server is down.
var errDown = errors.New("queuetest: the server is down")

// harmless are commands that change no key, beside those which miniredis calls read-only.
var harmless = []string{"PING", "ECHO", "TIME", "SELECT", "MULTI", "HELLO", "AUTH", "COMMAND", "CONFIG"}

// server is a Redis in memory. The data types are miniredis'; what queues need beyond them is here: connections without a network,
// scripts (lua.go), commands that block, and what CLIENT and INFO tell. Commands run one at a time, scripts as a whole.
//
// Its clock is time.Now, so that in a testing/synctest bubble it is the bubble's.
type server struct {
	mini     *miniredis.Miniredis
	commands atomic.Int64

	mu      sync.Mutex // held for one command
	lua     *interpreter
	nested  map[int]*desk // for commands of scripts, by database
	changed chan struct{} // closed and replaced after each command that may have changed a key
	wrote   bool          // the command that runs may have changed a key
	clients map[*client]bool
	serial  int
	down    bool
	group   sync.WaitGroup // one goroutine per connection
}

// client is a connection as the server sees it.
type client struct {
	conn  *conn
	desk  *desk
	id    int
	db    int
	name  string
	since time.Time
	last  time.Time // of its last command
	multi bool      // between MULTI and EXEC
}

func newServer() (*server, error) {
	s := &server{
		mini: miniredis.NewMiniRedis(), lua: newInterpreter(), nested: map[int]*desk{}, clients: map[*client]bool{},
		changed: make(chan struct{}),
	}
	s.mini.ClockTTL(true)

	first, err := s.mini.Dial() // makes it ready; we give it its commands ourselves
	if err != nil {
		return nil, fmt.Errorf("start miniredis: %w", err)
	}

	return s, first.Close()
}

// close ends the server: it waits until the goroutines of all connections have ended.
func (s *server) close() {
	s.setDown(true)
	s.group.Wait()
	s.mini.Close()
	s.lua.state.Close()
}

// setDown ends all connections and refuses new ones, or lets them in again. Data stays.
func (s *server) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.down = down

	if down {
		for c := range s.clients {
			_ = c.conn.Close() // it can't fail
		}
	}
}

// dial is a queue.Dialer. The goroutine that it starts ends with the connection.
func (s *server) dial(context.Context, string, string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.down {
		return nil, errDown
	}

	near, far := pipe()
	s.serial++
	c := &client{conn: far, desk: newDesk(), id: s.serial, since: time.Now(), last: time.Now()}
	s.clients[c] = true

	s.group.Go(func() { s.serve(c) })

	return near, nil
}

func (s *server) serve(c *client) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()

		delete(s.clients, c)

		_ = c.conn.Close() // it can't fail
	}()

	r, w := bufio.NewReader(c.conn), bufio.NewWriter(c.conn)

	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}

		reply, ok := s.answer(c, args)
		if !ok {
			return
		}

		writeReply(w, reply)

		if r.Buffered() > 0 {
			continue // more of a pipeline
		}

		if w.Flush() != nil {
			return
		}
	}
}

// answer runs a command, again and again until it need not wait any more. ok is false if the connection ended meanwhile.
func (s *server) answer(c *client, args []string) (reply any, ok bool) {
	args[0] = strings.ToUpper(args[0])
	s.commands.Add(1)

	wait, err := blocking(args)
	if err != nil {
		return failure(err.Error()), true
	}

	if wait != nil && wait.timeout > 0 {
		t := time.NewTimer(wait.timeout)
		defer t.Stop()

		wait.over = t.C
	}

	for {
		reply, changed, again := s.once(c, args, wait)
		if !again {
			return reply, true
		}

		select {
		case <-changed:
		case <-wait.over:
			return noReplies{}, true
		case <-c.conn.done:
			return nil, false
		}
	}
}

// once runs a command one time. again: it has to wait until something has changed.
func (s *server) once(c *client, args []string, wait *wait) (reply any, changed chan struct{}, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	c.last = time.Now()

	if wait != nil {
		if wait.stream != "" {
			s.fixStart(c, wait)
		}

		reply = wait.reply(c.desk.run(s.mini.Server(), wait.command))
		if reply == nil {
			return nil, s.changed, true
		}

		s.announce()

		return reply, nil, false
	}

	s.wrote = false
	reply = s.run(c, args)

	if s.wrote {
		s.announce()
	}

	return reply, nil, false
}

func (s *server) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) run(c *client, args []string) any {
	switch args[0] {
	case "EVAL", "EVALSHA", "SCRIPT":
		if c.multi {
			return failure("ERR queuetest runs no scripts in transactions")
		}

		return s.script(c, args)
	case "CLIENT":
		return s.clientCommand(c, args[1:])
	case "INFO":
		return "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n# Memory\r\nused_memory:0\r\nmaxmemory:0\r\n" +
			"maxmemory_policy:noeviction\r\n# Replication\r\nrole:master\r\n"
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR":
		return failure("ERR queuetest has no " + args[0])
	}

	reply := s.command(c.desk, args)

	if _, failed := reply.(failure); !failed {
		s.note(c, args)
	}

	return reply
}

// note follows what a command means to its connection.
func (*server) note(c *client, args []string) {
	switch args[0] {
	case "SELECT":
		c.db, _ = strconv.Atoi(args[1]) // it was a number
	case "MULTI":
		c.multi = true
	case "EXEC", "DISCARD":
		c.multi = false
	}
}

func (s *server) script(c *client, args []string) any {
	switch {
	case args[0] == "SCRIPT" && len(args) == 3 && strings.EqualFold(args[1], "LOAD"):
		sum, err := s.lua.load(args[2])
		if err != nil {
			return failure("ERR " + err.Error())
		}

		return sum
	case args[0] == "SCRIPT" && len(args) >= 2:
		return s.scriptMemory(args[1:])
	case len(args) < 3:
		return failure("ERR wrong number of arguments")
	}

	sum := strings.ToLower(args[1])

	if args[0] == "EVAL" {
		var err error
		if sum, err = s.lua.load(args[1]); err != nil {
			return failure("ERR " + err.Error())
		}
	}

	if s.lua.scripts[sum] == nil {
		return failure("NOSCRIPT No matching script. Please use EVAL.")
	}

	n, err := strconv.Atoi(args[2])
	if err != nil || n < 0 || n > len(args)-3 {
		return failure("ERR Number of keys can't be greater than number of args")
	}

	d := s.nestedDesk(c.db)

	return s.lua.run(sum, args[3:3+n], args[3+n:], func(args []string) any {
		args[0] = strings.ToUpper(args[0])

		return s.command(d, args)
	})
}

// command runs one of miniredis' commands.
func (s *server) command(d *desk, args []string) any {
	s.wrote = s.wrote || !s.mini.Server().IsReadOnlyCommand(args[0]) && !slices.Contains(harmless, args[0])

	return d.run(s.mini.Server(), args)
}

func (s *server) scriptMemory(args []string) any {
	switch strings.ToUpper(args[0]) {
	case "FLUSH":
		clear(s.lua.scripts)
		return status("OK")
	case "EXISTS":
		known := make([]any, len(args)-1)

		for i, sum := range args[1:] {
			known[i] = 0
			if s.lua.scripts[strings.ToLower(sum)] != nil {
				known[i] = 1
			}
		}

		return known
	}

	return failure("ERR unknown subcommand of SCRIPT")
}

func (s *server) nestedDesk(db int) *desk {
	d := s.nested[db]
	if d == nil {
		d = newDesk()
		d.run(s.mini.Server(), []string{"SELECT", strconv.Itoa(db)})
		s.nested[db] = d
	}

	return d
}
