package need_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
)

// recorder is a test that is asked for something; it notes how it ended.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (r *recorder) Helper() {}

func (r *recorder) Skipf(format string, args ...any) {
	r.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// ends runs f as a test does and tells how it ended.
func ends(t *testing.T, f func(testing.TB)) string {
	t.Helper()

	r := &recorder{TB: t}
	done := make(chan struct{})

	go func() {
		defer close(done)
		f(r)
	}()
	<-done

	switch {
	case r.failed != "":
		return "failed"
	case r.skipped != "":
		return "skipped"
	default:
		return "found"
	}
}

func TestAbsentThings(t *testing.T) {
	media := t.TempDir()
	if err := os.WriteFile(filepath.Join(media, "here.mp4"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	program := func(t testing.TB) { need.Program(t, "no-such-program") }
	clip := func(name string) func(testing.TB) { return func(t testing.TB) { need.Media(t, name) } }
	other := func(t testing.TB) { need.Skip(t, "no graphics card") }

	tests := []struct {
		name, require, want string
		ask                 func(testing.TB)
	}{
		{"program, nothing required", "", "skipped", program},
		{"program, all required", "all", "failed", program},
		{"program, named", "media,no-such-program", "failed", program},
		{"program, others named", "media,node", "skipped", program},
		{"clip is there", "all", "found", clip("here.mp4")},
		{"clip is not in the folder", "", "skipped", clip("gone.mp4")},
		{"clip is not in the folder, all required", "all", "failed", clip("gone.mp4")},
		{"other reason", "", "skipped", other},
		{"other reason, all required", "all", "failed", other},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("POSEFLEET_REQUIRE", tt.require)
			t.Setenv("POSEFLEET_MEDIA", media)

			if got := ends(t, tt.ask); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// The clips are not part of the repository: "all" does not ask for a folder that is nowhere.
func TestNoMediaFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module m\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	t.Chdir(dir)
	t.Setenv("POSEFLEET_MEDIA", "")

	if found, ok := need.MediaDir(); ok && !strings.HasPrefix(dir, filepath.Dir(filepath.Dir(found))) {
		t.Fatalf("found %s", found)
	}

	for require, want := range map[string]string{"all": "skipped", "media": "failed", "": "skipped"} {
		t.Setenv("POSEFLEET_REQUIRE", require)

		if got := ends(t, func(t testing.TB) { need.Media(t, "x.mp4") }); got != want {
			t.Errorf("POSEFLEET_REQUIRE=%s: got %s, want %s", require, got, want)
		}
	}
}
