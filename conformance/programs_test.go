package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
)

// programs are the built programs; each is built by the first test that asks for it.
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
	p.posefleet = sync.OnceValues(func() (string, error) { return p.build("posefleet", "./cmd/posefleet", "0") })
	p.unguarded = sync.OnceValues(func() (string, error) {
		return p.build("posefleet-unguarded", "./cmd/posefleet", "0", "-tags", "unguarded")
	})
	p.extractor = sync.OnceValues(func() (string, error) { return p.build("posefleet-extract", "./cmd/posefleet-extract", "1") })

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

// realExtractor is the path of posefleet-extract, which lies beside posefleet; the test is skipped where it has no models.
func realExtractor(t testing.TB) string {
	t.Helper()
	need.Assets(t)
	need.Program(t, "ffmpeg")

	return path(t, built.extractor)
}

func path(t testing.TB, build func() (string, error)) string {
	t.Helper()

	program, err := build()
	if err != nil {
		t.Fatal(err)
	}

	return program
}

func (p *programs) build(name, pkg, cgo string, args ...string) (string, error) {
	dir, err := p.dir()
	if err != nil {
		return "", err
	}

	program := filepath.Join(dir, name)
	cmd := exec.Command("go", append(append([]string{"build", "-o", program}, args...), pkg)...)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)

	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}

	return program, nil
}
