// Package node knows where the pinned npm packages of package-lock.json are installed: in the user's cache, in a folder named after
// the lock file's sum, so that a changed lock never meets old packages. cmd/dev installs them.
package node

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/posefleet/posefleet/internal/assets"
)

// ErrNotInstalled says that the npm packages are not on this machine.
var ErrNotInstalled = errors.New("npm packages are not installed (run: go run ./cmd/dev setup)")

// doneFile is written last by the installer; a folder without it is half done.
const doneFile = ".installed"

//go:embed package.json
var packageJSON []byte

//go:embed package-lock.json
var packageLock []byte

// Dir is the folder that holds node_modules. It fails with ErrNotInstalled when they are not there.
func Dir() (string, error) {
	dir := Target()
	if _, err := os.Stat(filepath.Join(dir, doneFile)); err != nil {
		return "", fmt.Errorf("%w: %s", ErrNotInstalled, dir)
	}

	return dir, nil
}

// Target is the folder where the packages belong, installed or not.
func Target() string {
	sum := sha256.Sum256(slices.Concat(packageJSON, packageLock))

	return filepath.Join(assets.CacheDir(), "node-"+hex.EncodeToString(sum[:6]))
}

// Install makes Target: it writes the package and lock files into a new folder, lets npm fill it (which must run `npm ci` there), and
// moves it into place whole, so that a broken installation is never met.
func Install(npm func(dir string) error) error {
	target := Target()
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("install npm packages: %w", err)
	}

	half, err := os.MkdirTemp(filepath.Dir(target), "tmp-*")
	if err != nil {
		return fmt.Errorf("install npm packages: %w", err)
	}
	defer os.RemoveAll(half)

	if err := errors.Join(
		os.WriteFile(filepath.Join(half, "package.json"), packageJSON, 0o644),
		os.WriteFile(filepath.Join(half, "package-lock.json"), packageLock, 0o644),
		os.Chmod(half, 0o755),
	); err != nil {
		return fmt.Errorf("install npm packages: %w", err)
	}

	if err := npm(half); err != nil {
		return fmt.Errorf("install npm packages: %w", err)
	}

	if err := errors.Join(os.WriteFile(filepath.Join(half, doneFile), nil, 0o644), os.RemoveAll(target)); err != nil {
		return fmt.Errorf("install npm packages: %w", err)
	}

	return os.Rename(half, target)
}

// Command is `node args…` with the packages within reach of require, by NODE_PATH. ES modules do not follow NODE_PATH: scripts that
// use the packages are CommonJS (.cjs) or call createRequire.
func Command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}

	program, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf("find node: %w", err)
	}

	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(withoutNodePath(os.Environ()), "NODE_PATH="+filepath.Join(dir, "node_modules"))

	return cmd, nil
}

func withoutNodePath(env []string) []string {
	return slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "NODE_PATH=") })
}
