// Package need says what a test needs from the machine. What is absent makes the test skip, or fail when $POSEFLEET_REQUIRE asks
// for it: a skip that nobody sees is a test that nobody runs.
//
// $POSEFLEET_REQUIRE is "all" or a comma-separated list of program names and of the words media, node and assets. "all" asks for
// media only where a media folder exists, because the clips are not part of the repository.
package need

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/internal/node"
)

const (
	envRequire = "POSEFLEET_REQUIRE"
	envMedia   = "POSEFLEET_MEDIA"
)

// Program is the path of the named program. A name with a slash is a path of its own.
func Program(t testing.TB, name string) string {
	t.Helper()

	path, err := exec.LookPath(name)
	if err != nil {
		lacking(t, filepath.Base(name), "program %s is not installed: %v", name, err)
	}

	return path
}

// Media is the path of a file below the media folder: $POSEFLEET_MEDIA, or shared/media beside the repository or further up.
func Media(t testing.TB, name string) string {
	t.Helper()

	dir, ok := MediaDir()
	if !ok {
		mediaLacking(t, "no media folder (set %s)", envMedia)
	}

	path := filepath.Join(dir, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		lacking(t, "media", "media file: %v", err)
	}

	return path
}

// MediaDir is the media folder, if there is one.
func MediaDir() (string, bool) {
	if dir := os.Getenv(envMedia); dir != "" {
		return dir, true
	}

	root, ok := moduleRoot()
	for ok {
		dir := filepath.Join(root, "shared", "media")
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir, true
		}

		parent := filepath.Dir(root)
		ok = parent != root
		root = parent
	}

	return "", false
}

// Node is the folder that holds node_modules with the packages of internal/node; the program node is there too.
func Node(t testing.TB) string {
	t.Helper()
	Program(t, "node")

	dir, err := node.Dir()
	if err != nil {
		lacking(t, "node", "%v", err)
	}

	return dir
}

// Assets is the directory with the model files and the inference library.
func Assets(t testing.TB) string {
	t.Helper()

	dir, err := assets.Find()
	if err != nil {
		lacking(t, "assets", "%v", err)
	}

	return dir.Path
}

// ModuleRoot is the folder of the repository.
func ModuleRoot(t testing.TB) string {
	t.Helper()

	root, ok := moduleRoot()
	if !ok {
		t.Fatal("no go.mod in this folder or above: tests run in the folder of their package")
	}

	return root
}

// Skip skips the test for a reason that no other function covers; with POSEFLEET_REQUIRE=all it fails the test.
func Skip(t testing.TB, why string) {
	t.Helper()
	lacking(t, "", "%s", why)
}

// Required reports whether $POSEFLEET_REQUIRE asks for the named thing.
func Required(thing string) bool {
	list := required()

	return slices.Contains(list, "all") || thing != "" && slices.Contains(list, thing)
}

func required() []string { return strings.Split(os.Getenv(envRequire), ",") }

func lacking(t testing.TB, thing, format string, args ...any) {
	t.Helper()

	if Required(thing) {
		t.Fatalf(envRequire+"="+os.Getenv(envRequire)+": "+format, args...)
	}

	t.Skipf(format, args...)
}

// mediaLacking handles the absence of the whole media folder, which "all" forgives.
func mediaLacking(t testing.TB, format string, args ...any) {
	t.Helper()

	if slices.Contains(required(), "media") {
		t.Fatalf(format, args...)
	}

	t.Skipf(format, args...)
}

// moduleRoot is the folder of go.mod: tests run in the folder of their package.
func moduleRoot() (string, bool) {
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}

	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, true
		}

		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}

		dir = parent
	}
}
