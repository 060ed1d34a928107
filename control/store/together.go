package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
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
// none is kept, and each is done again by itself.
type together struct {
	// lanes are the shared transactions that may run at once; whoever has one works for all that wait.
	lanes chan struct{}

	mu      sync.Mutex
	waiting []*member
}

// member is a write that waits.
type member struct {
	ctx  context.Context //nolint:containedctx // of a call that is waiting for the end
	key  string
	fn   func(*tx) error
	done chan error
}

func newTogether(lanes int) *together { return &together{lanes: make(chan struct{}, lanes)} }

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
	// Transactions that take their rows in the same order do not wait for each other in a circle.
	slices.SortStableFunc(batch, func(a, b *member) int { return cmp.Compare(a.key, b.key) })

	return batch
}

// writeTogether is write for what comes often; key names the rows that fn is going to lock. Its caller may cancel until its turn has come;
// after that it hears the outcome.
func (s *sqlStore) writeTogether(ctx context.Context, op, key string, fn func(t *tx) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	m := &member{ctx: ctx, key: key, fn: fn, done: make(chan error, 1)}
	s.together.add(m)
	for {
		select {
		case err := <-m.done:
			if err != nil {
				return fmt.Errorf("%s: %w", op, err)
			}

			return nil
		case s.together.lanes <- struct{}{}:
			s.writeBatch(s.together.take())
			<-s.together.lanes
		}
	}
}

// writeBatch carries out the writes and answers each.
func (s *sqlStore) writeBatch(batch []*member) {
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), togetherLimit)
	defer cancel()
	err := s.writeOnce(ctx, func(t *tx) error {
		for _, m := range batch {
			if m.ctx.Err() != nil {
				return m.ctx.Err()
			}
			if err := m.fn(t); err != nil {
				return err
			}
		}

		return nil
	})
	for _, m := range batch {
		if err == nil {
			m.done <- nil

			continue
		}
		m.done <- s.writeAgain(m.ctx, m.fn)
	}
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

// statements are those that a database keeps ready. Only SQLite needs it: the driver of Postgres does so by itself.
type statements struct {
	mu    sync.Mutex
	ready map[string]*sql.Stmt
	// wanted are the texts that were asked for, and whether somebody has taken it on to prepare them.
	wanted map[string]bool
}

// prepare makes ready what was asked for before. It must not be called within a transaction: there is one connection.
func (p *statements) prepare(ctx context.Context, db *sql.DB) error {
	for _, query := range p.take() {
		// Not under the lock: the connection may be in a transaction that asks for a statement.
		s, err := db.PrepareContext(ctx, query) //nolint:sqlclosecheck // close does
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.ready[query] = s
		p.mu.Unlock()
	}

	return nil
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
