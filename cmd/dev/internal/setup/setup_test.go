package setup

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose/tflite"
)

func TestUnpackTakesWhatIsAsked(t *testing.T) {
	t.Parallel()

	path := makeTarball(t, map[string]string{"package/a": "A", "package/b": "B", "package/c": "C"})

	got, err := unpack(path, "package/a", "package/c")
	if err != nil || !maps.EqualFunc(got, map[string]string{"package/a": "A", "package/c": "C"}, func(x []byte, y string) bool { return string(x) == y }) {
		t.Fatalf("got %q, %v", got, err)
	}

	if _, err := unpack(path, "package/a", "package/none"); err == nil {
		t.Fatal("a member that is not there was not missed")
	}
}

func TestUnpackRefusesACutFile(t *testing.T) {
	t.Parallel()

	path := makeTarball(t, map[string]string{"package/a": strings.Repeat("A", 1<<20)})
	if err := os.Truncate(path, 200); err != nil {
		t.Fatal(err)
	}

	if _, err := unpack(path, "package/a"); err == nil {
		t.Fatal("no error")
	}
}

// A file with a wrong sum is reported and gone: the next run must fetch it again.
func TestVerify(t *testing.T) {
	t.Parallel()

	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}

	if err := verify(path, "f", sumOf([]byte("x"))); err != nil {
		t.Fatal(err)
	}

	err := verify(path, "f", sumOf([]byte("y")))
	if err == nil || !strings.Contains(err.Error(), "wrong checksum: f has sha256") {
		t.Fatalf("got %v", err)
	}

	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Fatalf("the wrong file is still there: %v", err)
	}
}

// The pins name the files that the converter writes, no more and no fewer.
func TestPinsFitTheConverter(t *testing.T) {
	t.Parallel()

	var want []string
	for _, m := range tflite.PoseModels() {
		want = append(want, assets.ModelFile(m.Name, false), assets.ModelFile(m.Name, true))
	}

	slices.Sort(want)

	if got := slices.Sorted(maps.Keys(modelSums)); !slices.Equal(got, want) {
		t.Errorf("pinned %q, written %q", got, want)
	}

	for _, name := range FormsONNXRuntime.names() {
		if strings.Contains(name, "opencv") {
			t.Errorf("%s is not for ONNX Runtime", name)
		}
	}
}

func TestWriteAssetsIsWhatOpenReads(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	if err := writeAssets(dir, map[string][]byte{"a": []byte("A")}); err != nil {
		t.Fatal(err)
	}

	d, err := assets.Open(dir)
	if err != nil {
		t.Fatal(err)
	}

	if err := d.Check(); err != nil {
		t.Fatal(err)
	}

	if assetsCurrent(dir, FormsAll) {
		t.Error("a directory without models counts as current")
	}
}

func TestSetUpMachineIsCurrent(t *testing.T) {
	t.Parallel()

	if dir := need.Assets(t); !assetsCurrent(dir, FormsAll) {
		t.Errorf("%s is not what the pins say", dir)
	}
}

func TestMissingPackages(t *testing.T) {
	t.Parallel()
	need.Program(t, "dpkg-query")

	got, err := missingPackages(t.Context(), []string{"dpkg", "no-such-package-of-debian"})
	if err != nil || !slices.Equal(got, []string{"no-such-package-of-debian"}) {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestScopesGrow(t *testing.T) {
	t.Parallel()

	for s := range ScopeTest {
		for _, name := range s.debian() {
			if !slices.Contains((s + 1).debian(), name) {
				t.Errorf("scope %d lacks %s of scope %d", s+1, name, s)
			}
		}
	}
}

func TestStepNamesItself(t *testing.T) {
	t.Parallel()

	s := New(".", io.Discard)
	if !s.Idle() {
		t.Error("a new run is not idle")
	}

	if err := s.step("x", func() error { return os.ErrPermission }); err == nil || s.Idle() {
		t.Errorf("got %v, idle %v", err, s.Idle())
	}
}

func makeTarball(t *testing.T, files map[string]string) string {
	t.Helper()

	path := filepath.Join(t.TempDir(), "t.tgz")

	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}

	zipped := gzip.NewWriter(f)
	w := tar.NewWriter(zipped)

	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}

		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}

	for _, c := range []io.Closer{w, zipped, f} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}

	return path
}
