// Package assets finds the model files and the inference library on this machine and checks them against their manifest.
//
// An assets directory holds
//
//	manifest.json                          {file name: sha256 in hex}
//	libonnxruntime.so.1                    ONNX Runtime
//	pose_detection.onnx                    the person detector
//	pose_landmark_{lite,full,heavy}.onnx   the landmark models
//	…-opencv.onnx                          the same models in the form that OpenCV's DNN module reads
package assets

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Names of the files in an assets directory.
const (
	ManifestFile  = "manifest.json"
	RuntimeFile   = "libonnxruntime.so.1"
	Detector      = "pose_detection"
	LandmarkLite  = "pose_landmark_lite"
	LandmarkFull  = "pose_landmark_full"
	LandmarkHeavy = "pose_landmark_heavy"
)

// EnvDir names the environment variable that, when set, is the only place looked at.
const EnvDir = "POSEFLEET_ASSETS"

var (
	// ErrNotFound says that no assets directory is on this machine; `go run ./cmd/dev setup` makes one.
	ErrNotFound = errors.New("no model files found (run: go run ./cmd/dev setup)")
	// ErrUnlisted says that the file is not in the manifest, so that nothing is known about its origin.
	ErrUnlisted = errors.New("file is not in the manifest")
	// ErrChecksum says that a file differs from what the manifest promises.
	ErrChecksum = errors.New("wrong checksum")
)

// ModelFile is the file name of a model for ONNX Runtime or, with opencv, for OpenCV's DNN module.
func ModelFile(model string, opencv bool) string {
	if opencv {
		return model + "-opencv.onnx"
	}

	return model + ".onnx"
}

// Dir is an assets directory with its manifest.
type Dir struct {
	Path string
	sums map[string]string
}

// Find opens the first directory of Candidates that has a manifest. With $POSEFLEET_ASSETS set nothing else is looked at, so
// that a typing error there cannot silently lead to other models.
func Find() (*Dir, error) {
	for _, path := range Candidates() {
		dir, err := Open(path)
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return dir, err
		}
	}

	if path := os.Getenv(EnvDir); path != "" {
		return nil, fmt.Errorf("%w: %s=%s has no %s", ErrNotFound, EnvDir, path, ManifestFile)
	}

	return nil, ErrNotFound
}

// Candidates are the places where assets are looked for, best first.
func Candidates() []string {
	if path := os.Getenv(EnvDir); path != "" {
		return []string{path}
	}

	var paths []string

	if program, err := os.Executable(); err == nil {
		dir := filepath.Dir(program)
		paths = append(paths, filepath.Join(dir, "assets"), filepath.Join(dir, "..", "assets"))
	}

	return append(paths, "/usr/share/posefleet", filepath.Join(CacheDir(), "assets"))
}

// CacheDir is the folder for all that posefleet's tools keep between runs: <user cache>/posefleet, or /var/cache/posefleet for a
// process without a home.
func CacheDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = "/var/cache"
	}

	return filepath.Join(base, "posefleet")
}

// DemoClip is where setup puts the clip that the demo runs on when it is given none: vtest.avi of Debian's opencv-doc, people who walk
// over a yard, filmed from a window (768×576, 10 fps, 79.5 s; between seconds 50 and 61 two of them are near).
func DemoClip() string { return filepath.Join(CacheDir(), "clips", "vtest.avi") }

// Open reads the manifest of the directory at path. It does not read the other files yet: File does that.
func Open(path string) (*Dir, error) {
	raw, err := os.ReadFile(filepath.Join(path, ManifestFile))
	if err != nil {
		return nil, fmt.Errorf("open assets: %w", err)
	}

	dir := &Dir{Path: path}
	if err := json.Unmarshal(raw, &dir.sums); err != nil {
		return nil, fmt.Errorf("open assets: %s: %w", filepath.Join(path, ManifestFile), err)
	}

	return dir, nil
}

// File is the path of the named file, after its content has been compared with the manifest.
func (d *Dir) File(name string) (string, error) {
	want, ok := d.sums[name]
	if !ok {
		return "", fmt.Errorf("%s in %s: %w", name, d.Path, ErrUnlisted)
	}

	path := filepath.Join(d.Path, name)

	got, err := Sum(path)
	if err != nil {
		return "", err
	}

	if got != want {
		return "", fmt.Errorf("%s: %w: sha256 %s, want %s", path, ErrChecksum, got, want)
	}

	return path, nil
}

// SHA256 is the sum that the manifest gives for the named file, in hex; false when it lists no such file.
func (d *Dir) SHA256(name string) (string, bool) {
	sum, ok := d.sums[name]

	return sum, ok
}

// Check compares every file of the manifest.
func (d *Dir) Check() error {
	var faults []error

	for name := range d.sums {
		if _, err := d.File(name); err != nil {
			faults = append(faults, err)
		}
	}

	return errors.Join(faults...)
}

// Sum is the SHA-256 of the file at path in hex.
func Sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("checksum: %w", err)
	}
	defer f.Close()

	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("checksum of %s: %w", path, err)
	}

	return hex.EncodeToString(h.Sum(nil)), nil
}
