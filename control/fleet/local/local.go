package local

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/posefleet/posefleet/control/fleet"
)

// Config is how workers are started.
type Config struct {
	// Command is the program and its arguments, Env its whole environment; the ports are added.
	Command []string
	Env     []string
	// Grace is how long a worker may take to end after SIGTERM before it is killed; 0 means two minutes.
	Grace time.Duration
	// Log also gets what the workers write, which is best JSON: each line with the process id of its worker.
	Log *slog.Logger
}

var (
	errNoCommand = errors.New("local fleet: no command")
	errEnded     = errors.New("local fleet: has ended")
)

// defaultGrace is longer than a worker's drain.
const defaultGrace = 2 * time.Minute

// Fleet is a fleet.Driver.
type Fleet struct {
	cfg Config

	mu      sync.Mutex
	members []*member // those that were not told to end
	leaving []*member
	ended   bool
	all     sync.WaitGroup
}

var _ fleet.Driver = (*Fleet)(nil)

// New returns a fleet of no workers.
func New(cfg Config) (*Fleet, error) {
	if len(cfg.Command) == 0 {
		return nil, errNoCommand
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.Grace = cmp.Or(cfg.Grace, defaultGrace)

	return &Fleet{cfg: cfg}, nil
}

// Name is "local".
func (f *Fleet) Name() string { return string(fleet.Local) }

// Pace is short: a worker is there within a second or two.
func (f *Fleet) Pace() time.Duration { return 200 * time.Millisecond }

// Look counts processes, and as ready those that say so themselves.
func (f *Fleet) Look(context.Context) (fleet.Seen, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := fleet.Seen{Desired: len(f.members)}
	for _, m := range f.members {
		pid, ready := m.state()
		s.Running += count(pid != 0)
		s.Ready += count(ready)
	}
	for _, m := range f.leaving {
		pid, _ := m.state()
		s.Running += count(pid != 0)
	}

	return s, nil
}

func count(yes bool) int {
	if yes {
		return 1
	}

	return 0
}

// Spare keeps the busy ones.
func (f *Fleet) Spare(_ context.Context, n int, busy []string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	working := 0
	for _, m := range f.members {
		working += count(m.among(busy))
	}

	return max(n, working), nil
}

// Set starts workers, or tells the newest idle ones to end, and waits for neither.
func (f *Fleet) Set(_ context.Context, n int, busy []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return errEnded
	}
	for len(f.members) < n {
		m := newMember(f.cfg)
		f.members = append(f.members, m)
		f.all.Go(func() {
			m.run()
			f.forget(m)
		})
	}
	for i := len(f.members) - 1; i >= 0 && len(f.members) > n; i-- {
		if m := f.members[i]; !m.among(busy) {
			f.members = slices.Delete(f.members, i, i+1)
			f.release(m)
		}
	}

	return nil
}

// release tells a member to end; the caller holds mu.
func (f *Fleet) release(m *member) {
	f.leaving = append(f.leaving, m)
	close(m.stop)
}

// forget drops a member whose process is gone.
func (f *Fleet) forget(m *member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaving = slices.DeleteFunc(f.leaving, func(other *member) bool { return other == m })
}

// StandDown tells all to end.
func (f *Fleet) StandDown() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		f.release(m)
	}
	f.members = nil
}

// Run waits for the end of ctx, tells all to end, and waits until they have.
func (f *Fleet) Run(ctx context.Context) {
	<-ctx.Done()
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.StandDown()
	f.all.Wait()
}
