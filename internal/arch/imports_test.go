package arch_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
)

const module = "github.com/posefleet/posefleet"

// arrow says which packages of ours the packages below a path may import. A path or permission ending in "/..." means the package and
// all below it. The first arrow that fits a package holds.
type arrow struct {
	from string
	to   []string
}

// arrows is the table of docs/architecture.md. internal/... may be imported by all but the packages that are made to be imported by
// others' programs (protocol, queue): those stand alone.
func arrows() []arrow {
	const anything = "..."

	return []arrow{
		{"protocol", nil},
		{"protocol/ts/gen", []string{"protocol", "internal/node"}}, // a program that writes files
		{"protocol/...", []string{"protocol/..."}},
		{"queue/...", []string{"queue/..."}},
		{"claimcheck/...", []string{"claimcheck/...", "protocol/...", "internal/..."}},
		{"pose", nil},
		{"pose/media", []string{"pose", "internal/..."}},
		{"pose/onnx", nil},
		{"pose/tflite", []string{"pose/onnx"}},
		{"pose/infer/...", []string{"pose/infer/...", "pose/onnx", "internal/..."}},
		{"pose/manifest", []string{"pose"}},
		{"pose/vision", []string{"pose", "pose/manifest", "pose/infer"}},
		{"pose/movenet", []string{"pose", "pose/manifest", "pose/infer", "pose/vision"}},
		{"pose/rtmpose", []string{"pose", "pose/manifest", "pose/infer", "pose/vision"}},
		{"pose/yolopose", []string{"pose", "pose/manifest", "pose/infer", "pose/vision"}},
		{"pose/blazepose", []string{"pose", "pose/infer/...", "pose/vision", "internal/..."}},
		{"pose/models/...", []string{
			"pose/onnx", "pose/models/...",
			"pose", "pose/manifest", "pose/infer/...", "pose/vision", "pose/blazepose", "pose/movenet", "pose/rtmpose", "pose/yolopose", "internal/...",
		}},
		{"pose/signal", []string{"pose"}},
		{"pose/angles", []string{"pose"}},
		{"pose/synth", []string{"pose"}},
		{"pose/report", []string{"internal/player"}},
		{"pose/eval/...", []string{"pose/...", "protocol/...", "internal/..."}},
		{"pose/extract/...", []string{"pose/...", "protocol/...", "internal/..."}},
		{"worker/...", []string{"worker/...", "queue/...", "claimcheck/...", "protocol/...", "internal/..."}},
		{"control/fleet/...", []string{"control/fleet/...", "control/store/...", "internal/..."}},
		{"control/...", []string{"control/...", "queue/...", "claimcheck/...", "protocol/...", "internal/..."}},
		{"conformance/...", []string{anything}},
		{"internal/...", []string{"protocol/...", "internal/..."}},
		{"cmd/posefleet-extract/...", []string{"cmd/posefleet-extract/...", "pose/...", "protocol/...", "internal/..."}},
		{"cmd/posefleet/...", []string{
			"cmd/posefleet/...", "queue/...", "claimcheck/...", "worker/...", "control/...", "protocol/...", "internal/...", "pose", "pose/media",
		}},
		{"cmd/dev/...", []string{"cmd/dev/...", "pose/tflite", "internal/assets", "internal/node"}},
	}
}

// listed is what the go command says about a package.
type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
	CgoFiles   []string
}

func TestArrowsPointDown(t *testing.T) {
	t.Parallel()

	for _, p := range list(t, "1", "./...") {
		name := ours(p.ImportPath)

		i := slices.IndexFunc(arrows(), func(a arrow) bool { return fits(a.from, name) })
		if i < 0 {
			t.Errorf("%s has no place in docs/architecture.md and in this test", name)

			continue
		}

		for _, path := range p.Imports {
			if !strings.HasPrefix(path, module+"/") {
				continue
			}

			allowed := slices.ContainsFunc(arrows()[i].to, func(to string) bool { return fits(to, ours(path)) })
			if !allowed {
				t.Errorf("%s must not import %s", name, ours(path))
			}
		}
	}
}

// ban is something heavy or foreign that must not come along with a package, however many steps away.
type ban struct {
	pkg, what, why string
}

func TestNothingHeavyComesAlong(t *testing.T) {
	t.Parallel()

	const (
		opencv = "gocv.io/"
		ort    = "github.com/yalue/onnxruntime_go"
	)

	bans := []ban{
		{"./queue/...", opencv, "whoever imports queue gets go-redis and nothing else that is heavy"},
		{"./queue/...", "github.com/aws/", "as above"},
		{"./queue/...", "github.com/jackc/", "as above"},
		{"./queue/...", "modernc.org/", "as above"},
		{"./queue/...", "github.com/prometheus/", "as above"},
		{"./queue/...", module + "/protocol", "queue is BullMQ for any payload"},
		{"./claimcheck/...", "github.com/aws/", "claims are redeemed by plain HTTP: no storage vendor in the worker"},
		{"./worker/...", "github.com/aws/", "as above"},
		{"./worker/...", module + "/pose", "the extractor is a process of its own, so that a crash in native code costs one job"},
		{"./worker/...", module + "/control", "a worker knows the control plane by its contract"},
		{"./worker/...", "modernc.org/sqlite", "a worker keeps no state"},
		{"./control/...", module + "/worker", "the control plane knows workers by the contract"},
		{"./control/...", module + "/pose", "the control plane never decodes a clip"},
		{"./cmd/posefleet/...", opencv, "posefleet builds without cgo"},
		{"./cmd/posefleet/...", ort, "posefleet builds without cgo"},
		{"./cmd/posefleet-extract/...", "github.com/redis/", "the extractor talks to its worker only"},
		{"./cmd/posefleet-extract/...", "github.com/aws/", "the extractor gets files"},
	}

	for _, b := range bans {
		t.Run(strings.Trim(b.pkg, "./")+" without "+b.what, func(t *testing.T) {
			t.Parallel()

			for _, p := range list(t, "1", b.pkg) {
				for _, dep := range p.Deps {
					if strings.HasPrefix(dep, b.what) {
						t.Errorf("%s depends on %s: %s", ours(p.ImportPath), dep, b.why)
					}
				}
			}
		})
	}
}

// The wire types can be imported by anyone, and the developer tool must run where nothing has been downloaded yet.
func TestStandardLibraryOnly(t *testing.T) {
	t.Parallel()

	for _, pattern := range []string{"./protocol", "./pose", "./pose/tflite", "./cmd/dev/..."} {
		for _, p := range list(t, "1", "-deps", pattern) {
			if !p.Standard && !strings.HasPrefix(p.ImportPath, module+"/") {
				t.Errorf("%s needs %s, which is not in the standard library", pattern, p.ImportPath)
			}
		}
	}
}

// Without cgo nothing but Go is needed to build posefleet for a container.
func TestPosefleetHasNoCgo(t *testing.T) {
	t.Parallel()

	for _, p := range list(t, "1", "-deps", "./cmd/posefleet") {
		if !p.Standard && len(p.CgoFiles) > 0 {
			t.Errorf("cmd/posefleet needs cgo for %s", p.ImportPath)
		}
	}
}

// fits reports whether the package is the pattern, or is below it if the pattern ends in "/...".
func fits(pattern, pkg string) bool {
	if pattern == "..." {
		return true
	}

	base, deep := strings.CutSuffix(pattern, "/...")

	return pkg == base || deep && strings.HasPrefix(pkg, base+"/")
}

// ours is the path of a package of ours inside the module.
func ours(path string) string { return strings.TrimPrefix(path, module+"/") }

func list(t *testing.T, cgo string, args ...string) []listed {
	t.Helper()

	cmd := command(t, cgo, append([]string{"list", "-json=ImportPath,Standard,Imports,Deps,CgoFiles"}, args...)...)

	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}

		t.Fatal(err)
	}

	var packages []listed

	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}

		packages = append(packages, p)
	}
}

func command(t *testing.T, cgo string, args ...string) *exec.Cmd {
	t.Helper()

	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = need.ModuleRoot(t)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)

	return cmd
}
