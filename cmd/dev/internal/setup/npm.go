package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/posefleet/posefleet/cmd/dev/internal/proc"
	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/internal/node"
)

// nodePackages installs what the lock file of internal/node names, with npm checking the integrity of each package.
func (s *Setup) nodePackages(ctx context.Context) error {
	if err := s.nodeProgram(ctx); err != nil {
		return err
	}

	_, err := node.Dir()
	if err == nil || !errors.Is(err, node.ErrNotInstalled) {
		return err
	}

	return s.step("npm packages of internal/node", func() error {
		return node.Install(func(dir string) error {
			return proc.Run(ctx, proc.Spec{Dir: dir, Args: []string{
				"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
			}})
		})
	})
}

// fetch brings an npm package's tarball into dir and checks it before anything is read from it.
func fetch(ctx context.Context, t tarball, dir string) (string, error) {
	out, err := proc.Output(ctx, proc.Spec{Args: []string{
		"npm", "pack", t.spec, "--ignore-scripts", "--loglevel=error", "--pack-destination", dir,
	}})
	if err != nil {
		return "", fmt.Errorf("cannot fetch %s: %w", t.spec, err)
	}

	path := filepath.Join(dir, filepath.Base(strings.TrimSpace(out)))

	return path, verify(path, t.spec, t.sha256)
}

// verify compares the file at path with its pinned sum. A file that fails is removed: it must not be met again.
func verify(path, what, want string) error {
	got, err := assets.Sum(path)
	if err != nil {
		return err
	}

	if got != want {
		return errors.Join(fmt.Errorf("wrong checksum: %s has sha256 %s, want %s", what, got, want), os.Remove(path))
	}

	return nil
}
