package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/need"
)

// envPrograms names the folder with posefleet and posefleet-extract, if they have been built already.
const envPrograms = "POSEFLEET_BIN"

// programs are the programs under test; each is built by the first test that asks for it.
type programs struct {
	dir       func() (string, error)
	posefleet func() (string, error)
	unguarded func() (string, error)
	extractor func() (string, error)
}

// built is the one set of programs of the test run: building is slow and the result does not depend on the test.
var built = newPrograms()

func newPrograms() *programs {
	p := &programs{dir: sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "posefleet-conformance-") })}
	p.posefleet = sync.OnceValues(func() (string, error) { return p.find("posefleet") })
	p.extractor = sync.OnceValues(func() (string, error) { return p.find("posefleet-extract") })
	p.unguarded = sync.OnceValues(func() (string, error) { return p.build("posefleet-unguarded", "posefleet", "-tags", "unguarded") })

	return p
}

func removePrograms() {
	if dir, err := built.dir(); err == nil {
		_ = os.RemoveAll(dir) // a folder in the system's temp: the system clears what is left
	}
}

// posefleet is the path of the program posefleet.
func posefleet(t testing.TB) string { return path(t, built.posefleet) }

// unguarded is posefleet with the compare-and-set taken out of the control plane.
func unguarded(t testing.TB) string { return path(t, built.unguarded) }

// realExtractor makes sure that posefleet-extract lies beside posefleet; the test is skipped where it has no models.
func realExtractor(t testing.TB) {
	t.Helper()
	need.Assets(t)
	need.Program(t, "ffmpeg")
	path(t, built.extractor)
}

func path(t testing.TB, build func() (string, error)) string {
	t.Helper()

	program, err := build()
	if err != nil {
		t.Fatal(err)
	}

	return program
}

// find is the program as it was built before, or a fresh build.
func (p *programs) find(name string) (string, error) {
	if dir := os.Getenv(envPrograms); dir != "" {
		return filepath.Join(dir, name), nil
	}

	return p.build(name, name, "-ldflags=-s -w") // as they are shipped: what a process needs is measured, too
}

func (p *programs) build(name, command string, args ...string) (string, error) {
	dir, err := p.dir()
	if err != nil {
		return "", err
	}

	program := filepath.Join(dir, name)
	cmd := exec.Command("go", append(append([]string{"build", "-o", program}, args...), "./cmd/"+command)...)
	cmd.Dir = ".."
	if command == "posefleet" {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}

	proc, err := child.Start(cmd)
	if err != nil {
		return "", err
	}

	<-proc.Done()

	if err := proc.Err(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, proc.Output())
	}

	return program, nil
}
