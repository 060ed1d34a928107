package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/posefleet/posefleet/cmd/dev/internal/proc"
	"github.com/posefleet/posefleet/cmd/dev/internal/setup"
)

// cgoEnv makes the linker leave out what is not called. gocv binds all of OpenCV, and its rarely used parts pull in GDAL, VTK and GTK
// (630 MB). With each function in a section of its own, lld drops the unused bindings first and then the libraries that only they
// needed: core, imgproc and dnn remain. It is set for every command, because another value would compile gocv (a minute) once more.
func cgoEnv() []string {
	sections := "-O2 -g0 -ffunction-sections -fdata-sections"

	return []string{
		"CGO_ENABLED=1",
		"CGO_CFLAGS=" + sections,
		"CGO_CXXFLAGS=" + sections,
		"CGO_LDFLAGS=-fuse-ld=lld -Wl,--gc-sections -Wl,--as-needed",
	}
}

// build builds; "release" keeps this machine's paths out of the programs, at the price of compiling everything once more.
func (t *tool) build(ctx context.Context, args []string) error {
	if err := t.setup.Run(ctx, setup.ScopeBuild); err != nil {
		return err
	}

	if slices.Equal(args, []string{"release"}) {
		return t.compile(ctx, "-trimpath")
	}

	return t.compile(ctx)
}

// compile builds both programs. The first has no cgo, so that it runs in any container and never loads OpenCV.
func (t *tool) compile(ctx context.Context, extra ...string) error {
	if err := os.MkdirAll(filepath.Dir(t.bin("")), 0o755); err != nil {
		return err
	}

	// Quietly, and with its own error: a build that fails for want of a module reads like a fault in the code.
	if err := proc.Run(ctx, proc.Spec{Dir: t.root, Args: []string{"go", "mod", "download"}}); err != nil {
		return fmt.Errorf("cannot fetch Go modules: %w", err)
	}

	flags := "-s -w -X github.com/posefleet/posefleet/internal/version.stamp=" + t.version(ctx)
	programs := []struct {
		name string
		env  []string
	}{
		{"posefleet", []string{"CGO_ENABLED=0"}},
		{"posefleet-extract", cgoEnv()},
	}

	fmt.Println("build: posefleet and posefleet-extract (the first build takes minutes) …")

	for _, p := range programs {
		args := append([]string{"go", "build", "-buildvcs=false", "-ldflags", flags, "-o", t.bin(p.name)}, extra...)

		err := proc.Show(ctx, proc.Spec{Dir: t.root, Env: p.env, Args: append(args, "./cmd/"+p.name)})
		if err != nil {
			return fmt.Errorf("build %s: %w", p.name, err)
		}
	}

	return nil
}

// version is the state of the sources as git names it; a tree without git is "dev". $POSEFLEET_VERSION overrides it, for builds from
// an exported tree.
func (t *tool) version(ctx context.Context) string {
	if v := os.Getenv("POSEFLEET_VERSION"); v != "" {
		return v
	}

	if !proc.Found("git") {
		return "dev"
	}

	// The owner of the folder may be another user, as in a container.
	out, err := proc.Output(ctx, proc.Spec{Dir: t.root, Args: []string{
		"git", "-c", "safe.directory=" + t.root, "describe", "--always", "--dirty", "--tags",
	}})
	if err != nil {
		return "dev"
	}

	return strings.TrimSpace(out)
}
