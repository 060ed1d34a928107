package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlaces: what can't be written, or must not be, is refused before anything is read, in one line that names the flag; the clip stays.
func TestPlaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clip := []byte("what would be lost")
	for name, text := range map[string][]byte{"c.mp4": clip, "doc.json": []byte("{}")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("c.mp4", filepath.Join(dir, "link.mp4")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		args   []string
		stderr string
	}{
		{"the clip itself", []string{"c.mp4", "-o", "c.mp4"}, "-o: c.mp4 is what is read"},
		{"the clip by another path", []string{"c.mp4", "--overlay", "./../" + filepath.Base(dir) + "/c.mp4"}, "is what is read"},
		{"the clip by a link", []string{"c.mp4", "--report", "link.mp4"}, "--report: link.mp4 is what is read"},
		{"the document itself", []string{"export", "doc.json", "-o", "doc.json"}, "-o: doc.json is what is read"},
		{"two into one", []string{"c.mp4", "-o", "x", "--picture", "./x"}, "-o and --picture: both are ./x"},
		{"no such folder", []string{"c.mp4", "-o", "no/x.json"}, "-o: there is no folder no"},
		{"in a file", []string{"c.mp4", "--overlay", "doc.json/x.mp4"}, "--overlay: "},
		{"a folder", []string{"c.mp4", "--overlay", "."}, "--overlay: . is a folder"},
		{"a file for a folder", []string{"c.mp4", "--format", "openpose", "-o", "doc.json"}, "-o: doc.json is no folder"},
		{"a device", []string{"c.mp4", "-o", os.DevNull}, "is a device"},
		{"a video on stdout", []string{"c.mp4", "-o", "-", "--overlay", "-"}, "--overlay: this needs the name of a file"},
		{"a report on stdout", []string{"export", "doc.json", "--report", "-"}, "--report: this needs the name of a file"},
		{"twice", []string{"c.mp4", "-o", "x", "-o", "y"}, "--output is given twice (see posefleet-extract --help)"},
		{"hint to the command", []string{"export", "--bogus"}, "(see posefleet-extract export --help)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := execute(t, dir, tt.args...)
			if r.code != exitUsage || !strings.Contains(r.stderr, tt.stderr) || strings.Count(r.stderr, "\n") != 1 || r.stdout != "" {
				t.Errorf("%+v", r)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "c.mp4")); err != nil || !bytes.Equal(got, clip) {
				t.Errorf("the clip is %q, %v", got, err)
			}
		})
	}
}

// TestAddress: who gives an address is told that clips are files.
func TestAddress(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"https://host/c.mp4"}, {"export", "https://host/doc.json"}} {
		if r := execute(t, t.TempDir(), args...); r.code != exitFailed || !strings.HasPrefix(r.stderr, "posefleet-extract: input_missing: this is an address") {
			t.Errorf("%+v", r)
		}
	}
}
