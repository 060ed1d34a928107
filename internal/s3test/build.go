package s3test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/posefleet/posefleet/internal/assets"
)

// build is the path of the server program made of the module in dir. It is built once per state of its sources and kept in the
// user's cache; test processes that come at the same time wait for the first one.
func build(ctx context.Context, dir string) (string, error) {
	name, err := programName(dir)
	if err != nil {
		return "", err
	}

	if err := os.MkdirAll(assets.CacheDir(), 0o755); err != nil {
		return "", fmt.Errorf("build S3 server: %w", err)
	}

	path := filepath.Join(assets.CacheDir(), name)

	unlock, err := lock(path + ".lock")
	if err != nil {
		return "", fmt.Errorf("build S3 server: %w", err)
	}
	defer unlock()

	if _, err := os.Stat(path); err == nil {
		return path, nil
	}

	return path, compile(ctx, dir, path)
}

func compile(ctx context.Context, dir, path string) error {
	// A build that is cut off must not leave something that looks like a program.
	half := path + ".half"

	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", half, ".")
	cmd.Dir = dir
	// A workspace or module flags of the caller are meant for another module.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "CGO_ENABLED=0")

	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out

	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build S3 server: %w\n%s", err, out.Bytes())
	}

	return os.Rename(half, path)
}

// programName changes with everything that the program is made of.
func programName(dir string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOARCH)

	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", fmt.Errorf("build S3 server: %w", err)
		}

		h.Write(raw)
	}

	return "s3server-" + hex.EncodeToString(h.Sum(nil)[:6]), nil
}

// lock takes an advisory lock that the kernel drops when this process ends, however it ends.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}

	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close() // the lock is the fault to report

		return nil, err
	}

	return func() { _ = f.Close() }, nil // closing drops the lock
}
