package setup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/pose/tflite"
)

// maxMember bounds what is unpacked from a tarball; the largest file of interest has 36 MB.
const maxMember = 256 << 20

// Forms says in which forms the models are wanted.
type Forms int

// Both forms are for machines where the inference library may be missing; a place that has it needs the first form only.
const (
	FormsAll Forms = iota
	FormsONNXRuntime
)

// names are the converted models of the forms.
func (f Forms) names() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(modelSums)), func(name string) bool {
		return f == FormsONNXRuntime && strings.HasSuffix(name, "-opencv.onnx")
	})
}

// Assets makes the assets directory at dir, unless it is there with the pinned content.
func (s *Setup) Assets(ctx context.Context, dir string, forms Forms) error {
	if assetsCurrent(dir, forms) {
		return nil
	}

	if err := s.nodeProgram(ctx); err != nil {
		return err
	}

	return s.step("pose models and inference library", func() error {
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return err
		}

		// All or nothing: a half-made directory must not be taken for a whole one.
		half, err := os.MkdirTemp(filepath.Dir(dir), "tmp-*")
		if err != nil {
			return err
		}
		defer os.RemoveAll(half)

		if err := makeAssets(ctx, half, forms); err != nil {
			return err
		}

		return replaceDir(half, dir)
	})
}

// assetsCurrent reports whether dir holds what the pins say.
func assetsCurrent(dir string, forms Forms) bool {
	d, err := assets.Open(dir)
	if err != nil {
		return false
	}

	want := map[string]string{assets.RuntimeFile: runtimeLibraries[runtime.GOARCH].sha256}
	for _, name := range forms.names() {
		want[name] = modelSums[name]
	}

	for name, sum := range want {
		if got, ok := d.SHA256(name); !ok || got != sum {
			return false
		}
	}

	return d.Check() == nil
}

func makeAssets(ctx context.Context, dir string, forms Forms) error {
	library, ok := runtimeLibraries[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("no inference library is known for linux/%s", runtime.GOARCH)
	}

	tmp, err := os.MkdirTemp(dir, "npm-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)

	runtimeFile, err := unpackOne(ctx, tarballRuntime, library, tmp)
	if err != nil {
		return err
	}

	models, err := convertModels(ctx, tmp)
	if err != nil {
		return err
	}

	files := map[string][]byte{assets.RuntimeFile: runtimeFile}
	for _, name := range forms.names() {
		files[name] = models[name]
	}

	return errors.Join(writeAssets(dir, files), os.RemoveAll(tmp))
}

// unpackOne fetches a tarball and takes one checked file from it.
func unpackOne(ctx context.Context, t tarball, m member, tmp string) ([]byte, error) {
	path, err := fetch(ctx, t, tmp)
	if err != nil {
		return nil, err
	}

	files, err := unpack(path, m.path)
	if err != nil {
		return nil, err
	}

	if got := sumOf(files[m.path]); got != m.sha256 {
		return nil, fmt.Errorf("wrong checksum: %s of %s has sha256 %s, want %s", m.path, t.spec, got, m.sha256)
	}

	return files[m.path], nil
}

// convertModels fetches the TFLite models and turns them into ONNX.
func convertModels(ctx context.Context, tmp string) (map[string][]byte, error) {
	path, err := fetch(ctx, tarballModels, tmp)
	if err != nil {
		return nil, err
	}

	var members []string
	for _, model := range tflite.PoseModels() {
		members = append(members, model.Source)
	}

	source, err := unpack(path, members...)
	if err != nil {
		return nil, err
	}

	models, err := tflite.ConvertAll(source)
	if err != nil {
		return nil, fmt.Errorf("convert the pose models: %w", err)
	}

	for name, want := range modelSums {
		if got := sumOf(models[name]); got != want {
			return nil, fmt.Errorf("wrong checksum: converted model %s has sha256 %s, want %s", name, got, want)
		}
	}

	return models, nil
}

// writeAssets writes the files and, last, the manifest that makes the directory valid.
func writeAssets(dir string, files map[string][]byte) error {
	manifest := map[string]string{}

	for name, content := range files {
		manifest[name] = sumOf(content)

		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}

	raw, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return err
	}

	// The models are read by whatever user the worker runs as.
	return errors.Join(os.WriteFile(filepath.Join(dir, assets.ManifestFile), append(raw, '\n'), 0o644), os.Chmod(dir, 0o755))
}

// replaceDir puts the directory from in the place of to.
func replaceDir(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}

	return os.Rename(from, to)
}

// unpack reads the named members of a .tgz; each must be there.
func unpack(path string, members ...string) (map[string][]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	zipped, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", path, err)
	}

	missing := map[string]bool{}
	for _, name := range members {
		missing[name] = true
	}

	found := map[string][]byte{}

	for r := tar.NewReader(zipped); len(missing) > 0; {
		head, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("unpack %s: %d files are not in it: %w", path, len(missing), err)
		}

		if !missing[head.Name] {
			continue
		}

		if found[head.Name], err = readMember(r); err != nil {
			return nil, fmt.Errorf("unpack %s of %s: %w", head.Name, path, err)
		}

		delete(missing, head.Name)
	}

	return found, nil
}

func readMember(r io.Reader) ([]byte, error) {
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.LimitReader(r, maxMember+1)); err != nil {
		return nil, err
	}

	if b.Len() > maxMember {
		return nil, fmt.Errorf("larger than %d bytes", maxMember)
	}

	return b.Bytes(), nil
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)

	return hex.EncodeToString(sum[:])
}
