package assets_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/posefleet/posefleet/internal/assets"
)

const helloSum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // sha256 of "hello"

func TestFileChecksContent(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	write(t, dir, assets.ManifestFile, `{"good":"`+helloSum+`","bad":"`+helloSum+`","gone":"`+helloSum+`"}`)
	write(t, dir, "good", "hello")
	write(t, dir, "bad", "hallo")
	write(t, dir, "unlisted", "hello")

	d, err := assets.Open(dir)
	if err != nil {
		t.Fatal(err)
	}

	tests := []struct {
		name string
		want error
	}{
		{"good", nil},
		{"bad", assets.ErrChecksum},
		{"gone", os.ErrNotExist},
		{"unlisted", assets.ErrUnlisted},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			path, err := d.File(tt.name)
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}

			if err == nil && path != filepath.Join(dir, tt.name) {
				t.Fatalf("got path %s", path)
			}
		})
	}

	if err := d.Check(); !errors.Is(err, assets.ErrChecksum) || !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("Check: got %v, want both faults", err)
	}
}

// A typing error in the variable must not silently lead to the models of another place.
func TestEnvironmentIsTheOnlyPlace(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(assets.EnvDir, dir)

	if _, err := assets.Find(); !errors.Is(err, assets.ErrNotFound) {
		t.Fatalf("got %v, want ErrNotFound", err)
	}

	write(t, dir, assets.ManifestFile, `{}`)

	d, err := assets.Find()
	if err != nil || d.Path != dir {
		t.Fatalf("got %v, %v", d, err)
	}
}

// A manifest that cannot be read is a fault of its own: going on to the next place would hide it.
func TestBrokenManifestIsReported(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(assets.EnvDir, dir)
	write(t, dir, assets.ManifestFile, `{"x":`)

	if _, err := assets.Find(); err == nil || errors.Is(err, assets.ErrNotFound) {
		t.Fatalf("got %v", err)
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()

	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
