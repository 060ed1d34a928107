package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/pgtest"
	"github.com/posefleet/posefleet/internal/wait"
)

// What both databases do alike, on one server for all.
func TestOnBothDatabases(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for name, test := range map[string]func(*testing.T, *sqlStore){
		"each of several has its own outcome": togetherEachHasItsOwnOutcome,
		"a write panics":                      writePanics,
		"a write ends its goroutine":          writeEndsItsGoroutine,
		"sizes of all tables":                 sizesOfAllTables,
		"a look into the outbox fails":        outboxOfFails,
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("sqlite", func(t *testing.T) { test(t, openAt(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db"))) })
			t.Run("postgres", func(t *testing.T) { test(t, openAt(t, server.Database())) })
		})
	}
}

// keep writes a row that only this name makes.
func keep(name string) func(*tx) error {
	return func(t *tx) error {
		return t.run(`INSERT INTO secrets (name, value) VALUES ($1, $2)`, name, []byte(name))
	}
}

// kept counts the rows that are there.
func (s *sqlStore) kept(t *testing.T) int {
	t.Helper()
	var n int
	if err := s.reader.QueryRowContext(t.Context(), `SELECT count(*) FROM secrets`).Scan(&n); err != nil {
		t.Fatal(err)
	}

	return n
}

// within fails the test if fn does not return.
func within(t *testing.T, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { // ends with fn, or with the process if what the test looks for happens
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s: it hangs", what)
	}
}

// panicOf calls fn and returns the text of its panic, or "".
func panicOf(fn func()) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprint(p)
		}
	}()
	fn()

	return ""
}

var errNotThisOne = errors.New("not this one")

// Of writes that share a transaction one panics, one fails and one is not wanted any more: those hear of it themselves, the others are kept, and
// the next write finds the database free.
func togetherEachHasItsOwnOutcome(t *testing.T, s *sqlStore) {
	t.Helper()
	s.together = newTogether()
	const good = 20
	gone, leave := context.WithCancel(t.Context())
	var mu sync.Mutex
	outcomes := map[string]string{}
	var all sync.WaitGroup
	write := func(ctx context.Context, name string, fn func(*tx) error) {
		all.Go(func() {
			var err error
			text := panicOf(func() { err = s.writeTogether(ctx, "test", fn) })
			mu.Lock()
			defer mu.Unlock()
			outcomes[name] = fmt.Sprint(text, err)
		})
	}
	s.together.lane <- struct{}{} // all of them come while another transaction runs
	for i := range good {
		write(t.Context(), fmt.Sprint("good", i), keep(fmt.Sprint("good", i)))
	}
	write(t.Context(), "panics", func(t *tx) error {
		_ = keep("panics")(t)

		panic("a mistake in the code")
	})
	write(t.Context(), "fails", func(t *tx) error { return errors.Join(keep("fails")(t), errNotThisOne) })
	write(gone, "gone", keep("gone"))
	wait.For(t, time.Minute, func() bool {
		s.together.mu.Lock()
		defer s.together.mu.Unlock()

		return len(s.together.waiting) == good+3
	}, "they do not come")
	leave()
	<-s.together.lane
	within(t, "the writes", all.Wait)
	for name, got := range outcomes {
		want := map[string]string{"panics": "a mistake in the code", "fails": errNotThisOne.Error(), "gone": context.Canceled.Error()}[name]
		if want == "" && got != "<nil>" || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", name, got, want)
		}
	}
	within(t, "the next write", func() {
		if err := s.writeTogether(t.Context(), "test", keep("next")); err != nil {
			t.Error(err)
		}
	})
	if n := s.kept(t); n != good+1 || len(outcomes) != good+3 {
		t.Errorf("%d are kept, %d have heard", n, len(outcomes))
	}
}

// A write that panics undoes what it did and leaves no transaction open, which in SQLite would be the end of all writing.
func writePanics(t *testing.T, s *sqlStore) {
	t.Helper()
	s.writer.SetMaxOpenConns(1)
	for range 3 {
		got := panicOf(func() {
			_ = s.write(t.Context(), "test", func(t *tx) error {
				_ = keep("once")(t)

				panic("a mistake in the code")
			})
		})
		if got != "a mistake in the code" {
			t.Fatalf("the panic is %q", got)
		}
	}
	within(t, "the next write", func() {
		if err := s.write(t.Context(), "test", keep("once")); err != nil {
			t.Error(err)
		}
	})
}

// A write ends its goroutine, as a test's FailNow does, while another's carries out both: the other is kept and hears of it, the one that ended is
// not kept and its own goroutine ends, and the next write finds the lane free.
func writeEndsItsGoroutine(t *testing.T, s *sqlStore) {
	t.Helper()
	s.together = newTogether()
	var all sync.WaitGroup
	var heard, passed atomic.Int32
	s.together.lane <- struct{}{} // both come while another transaction runs
	for range 2 {
		all.Go(func() {
			if err := s.writeTogether(t.Context(), "test", keep(fmt.Sprint("good", heard.Add(1)))); err != nil {
				t.Error(err)
			}
			passed.Add(1)
		})
		all.Go(func() {
			_ = s.writeTogether(t.Context(), "test", func(t *tx) error {
				_ = keep("ends")(t)
				runtime.Goexit()

				return nil
			})
			t.Error("the goroutine goes on")
		})
	}
	wait.For(t, time.Minute, func() bool {
		s.together.mu.Lock()
		defer s.together.mu.Unlock()

		return len(s.together.waiting) == 4
	}, "they do not come")
	<-s.together.lane
	within(t, "the writes", all.Wait)
	within(t, "the next write", func() {
		if err := s.writeTogether(t.Context(), "test", keep("next")); err != nil {
			t.Error(err)
		}
	})
	if n := s.kept(t); n != 3 || passed.Load() != 2 {
		t.Errorf("%d are kept, %d have heard", n, passed.Load())
	}
}

// The connection that writes is lost again and again: each statement is prepared on the next one, and what could not be prepared since its caller
// was gone is prepared for the next.
func TestStatementsOfALostConnection(t *testing.T) {
	t.Parallel()
	s := openAt(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db"))
	const query = `INSERT INTO secrets (name, value) VALUES ($1, $2)`
	ready := func() bool {
		s.statements.mu.Lock()
		defer s.statements.mu.Unlock()

		return s.statements.ready[query] != nil
	}
	s.statements.get(query)
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := s.write(gone, "test", keep("gone")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := s.write(t.Context(), "test", keep(strconv.Itoa(i))); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
		if !ready() {
			t.Fatalf("write %d: the statement is not ready", i)
		}
		lose(t, s)
	}
	if n := s.kept(t); n != 4 {
		t.Errorf("%d of 4 writes are kept", n)
	}
	if s.writer.Stats().OpenConnections > 1 {
		t.Errorf("%d connections write", s.writer.Stats().OpenConnections)
	}
}

// lose drops the connection that writes.
func lose(t *testing.T, s *sqlStore) {
	t.Helper()
	c, err := s.writer.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Raw(func(any) error { return driver.ErrBadConn }); !errors.Is(err, driver.ErrBadConn) {
		t.Fatal(err)
	}
	_ = c.Close() // gone already
}
