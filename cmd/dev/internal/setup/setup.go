// Package setup brings a machine to the state that posefleet is built, run and tested in: Debian packages, npm packages, the pose
// models and the inference library. Everything is pinned and checked by sum, nothing is fetched that is there, and whatever goes
// wrong is one error that says what.
package setup

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/posefleet/posefleet/internal/assets"
)

// Setup is one run. It is not for use by several goroutines.
type Setup struct {
	out        io.Writer // progress for people
	root       string    // the repository
	aptUpdated bool
	work       int // steps that had something to do
}

// New makes a run that reports its steps to out. root is the folder of the repository.
func New(root string, out io.Writer) *Setup { return &Setup{out: out, root: root} }

// Run sees to everything that the scope needs. A second run at the same time waits for the first.
func (s *Setup) Run(ctx context.Context, scope Scope) error {
	fmt.Fprintln(s.out, "setup: looking for what is missing …")

	unlock, err := lock(ctx, s.out)
	if err != nil {
		return err
	}
	defer unlock()

	if err := sweep(); err != nil {
		return err
	}

	if err := s.debianPackages(ctx, scope.debian()); err != nil {
		return err
	}

	if scope == ScopeBuild {
		return nil
	}

	if err := s.Assets(ctx, filepath.Join(assets.CacheDir(), "assets"), FormsAll); err != nil {
		return err
	}

	if err := s.nodePackages(ctx); err != nil {
		return err
	}

	return s.clip(ctx)
}

// Image sees to what building and checking the container image without an engine needs: its tools, and a clip to run it on.
func (s *Setup) Image(ctx context.Context) error {
	unlock, err := lock(ctx, s.out)
	if err != nil {
		return err
	}
	defer unlock()

	if err := s.debianPackages(ctx, packagesImage); err != nil {
		return err
	}

	return s.clip(ctx)
}

// Idle reports whether nothing had to be done.
func (s *Setup) Idle() bool { return s.work == 0 }

// step reports what is being done before it is done, because some steps take a minute.
func (s *Setup) step(what string, do func() error) error {
	s.work++
	start := time.Now()

	fmt.Fprintf(s.out, "setup: %s …\n", what)

	if err := do(); err != nil {
		return fmt.Errorf("setup: %w", err)
	}

	fmt.Fprintf(s.out, "setup: … done in %.1f s\n", time.Since(start).Seconds())

	return nil
}

// sweep removes what a setup that was killed has left; the lock says that no other one is at work.
func sweep() error {
	left, err := filepath.Glob(filepath.Join(assets.CacheDir(), "tmp-*"))
	if err != nil {
		return fmt.Errorf("setup: %w", err)
	}

	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("setup: %w", err)
		}
	}

	return nil
}

// lock keeps two setups apart. The kernel drops it when the process ends, however it ends.
func lock(ctx context.Context, out io.Writer) (unlock func(), err error) {
	dir := assets.CacheDir()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("setup: %w", err)
	}

	f, err := os.OpenFile(filepath.Join(dir, "setup.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("setup: %w", err)
	}

	release := func() { _ = f.Close() } // closing drops the lock

	const poll = 200 * time.Millisecond

	for told := false; ; told = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return release, nil
		}

		if !told {
			fmt.Fprintln(out, "setup: waiting for another setup to end …")
		}

		select {
		case <-time.After(poll):
		case <-ctx.Done():
			release()

			return nil, context.Cause(ctx)
		}
	}
}
