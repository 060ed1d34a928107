package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

const (
	// togetherMost is how many writes share a transaction.
	togetherMost = 64
	// togetherLimit bounds a shared transaction: it belongs to no caller.
	togetherLimit = 15 * time.Second
	// statementsMost bounds the prepared statements: far more than there are texts.
	statementsMost = 300
)

// together lets writes that come at the same time share transactions. Each still happens as a whole or not at all: if one of them fails,
// none is kept, and each is done again by itself. What one of them does wrong is its own: its error, its panic and the end of its goroutine are its
// caller's.
type together struct {
	// lane is held by whoever writes for all that wait: one transaction at a time, in the order in which the writes came. There is one writer
	// in SQLite, so that no two of these transactions can wait for each other's rows.
	lane chan struct{}

	mu      sync.Mutex
	waiting []*member
}

// member is a write that waits.
type member struct {
	ctx  context.Context //nolint:containedctx // of a call that is waiting for the end
	fn   func(*tx) error
	done chan error
}

// panicError is a panic of a member's function, on its way to the member's own goroutine.
type panicError struct {
	value any
	stack []byte
}

// Error tells the panic and where it was.
func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// errExit is runtime.Goexit in a member's function, on its way to the member's own goroutine.
var errExit = errors.New("the goroutine of a write ended")

func newTogether() *together { return &together{lane: make(chan struct{}, 1)} }

func (g *together) add(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, m)
}

// take returns those who waited longest.
func (g *together) take() []*member {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), togetherMost)
	batch := g.waiting[:n:n]
	g.waiting = g.waiting[n:]

	return batch
}

// writeTogether is write for what comes often. Its caller may cancel until its turn has come; after that it hears the outcome.
func (s *sqlStore) writeTogether(ctx context.Context, op string, fn func(t *tx) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	m := &member{ctx: ctx, fn: fn, done: make(chan error, 1)}
	s.together.add(m)
	for {
		select {
		case err := <-m.done:
			if broken, ok := errors.AsType[*panicError](err); ok {
				panic(broken)
			}
			if errors.Is(err, errExit) {
				runtime.Goexit()
			}
			if err != nil {
				return fmt.Errorf("%s: %w", op, err)
			}

			return nil
		case s.together.lane <- struct{}{}:
			s.writeBatch(s.together.take())
			<-s.together.lane
		}
	}
}

// writeBatch carries out the writes and answers each: the others wait for their answers, whatever one of them does.
func (s *sqlStore) writeBatch(batch []*member) {
	batch = slices.DeleteFunc(batch, func(m *member) bool {
		err := m.ctx.Err() // it has not begun: who does not want it any more costs the others nothing
		if err != nil {
			m.done <- err
		}

		return err != nil
	})
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), togetherLimit)
	defer cancel()
	err := apart(func() error {
		return s.writeOnce(ctx, func(t *tx) error {
			for _, m := range batch {
				if err := m.fn(t); err != nil {
					return err
				}
			}

			return nil
		})
	})
	for _, m := range batch {
		if err == nil {
			m.done <- nil

			continue
		}
		m.done <- apart(func() error { return s.writeAgain(m.ctx, m.fn) })
	}
}

// apart calls fn on a goroutine that nobody else needs, and waits for it. A panic and runtime.Goexit become errors, once all that fn deferred has
// happened: its transaction is undone.
func apart(fn func() error) error {
	done := make(chan error, 1)
	go func() { // ends with fn
		err := errExit
		defer func() {
			if p := recover(); p != nil {
				err = &panicError{value: p, stack: debug.Stack()}
			}
			done <- err
		}()
		err = fn()
	}()

	return <-done
}

// writeAgain is write without the operation's name.
func (s *sqlStore) writeAgain(ctx context.Context, fn func(t *tx) error) error {
	var err error
	for range txTries {
		if err = s.writeOnce(ctx, fn); err == nil || !s.transient(err) {
			break
		}
	}

	return err
}

// statements are those that a database keeps ready. Only SQLite needs it: the driver of Postgres does so by itself. A statement is the
// database's, not the connection's: on a new connection it is prepared again where it is used.
type statements struct {
	mu    sync.Mutex
	ready map[string]*sql.Stmt
	// wanted are the texts that were asked for, and whether somebody has taken it on to prepare them.
	wanted map[string]bool
}

// prepare makes ready what was asked for before. It must not be called within a transaction: there is one connection. What can't be prepared
// now is wanted again, and meanwhile sent as text: that the connection is away, or the caller has gone, is for the transaction to say.
func (p *statements) prepare(ctx context.Context, db *sql.DB) {
	for _, query := range p.take() {
		// Not under the lock: the connection may be in a transaction that asks for a statement.
		s, err := db.PrepareContext(ctx, query) //nolint:sqlclosecheck // close does
		p.mu.Lock()
		if err == nil {
			p.ready[query] = s
		} else {
			p.wanted[query] = false
		}
		p.mu.Unlock()
	}
}

// take returns the texts that are wanted; each is given out once.
func (p *statements) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for query, taken := range p.wanted {
		if !taken {
			out = append(out, query)
			p.wanted[query] = true
		}
	}

	return out
}

// get returns the statement if it is ready, or notes that it is wanted.
func (p *statements) get(query string) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.ready[query]
	if _, known := p.wanted[query]; !known && len(p.wanted) < statementsMost {
		p.wanted[query] = false
	}

	return s
}

// close gives the statements back.
func (p *statements) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for query, s := range p.ready {
		_ = s.Close() // the connection goes as well
		delete(p.ready, query)
	}
}
