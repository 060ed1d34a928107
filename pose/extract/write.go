package extract

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/posefleet/posefleet/pose"
)

// WriteDocument writes the pose document.
func (r *Result) WriteDocument(w io.Writer) error {
	e, err := pose.NewEncoder(w, pose.Head{AnalysisID: r.AnalysisID, Model: r.Model, Skeleton: r.Skeleton})
	if err != nil {
		return err
	}
	for _, c := range r.Clips {
		source, err := c.Source()
		if err != nil {
			return err
		}
		if err := e.Clip(source.Clip, source.Frames()); err != nil {
			return err
		}
	}
	return e.Close()
}

// WriteDocumentFile writes the document as a gzip file, whole or not at all. The bytes depend on the document alone.
func (r *Result) WriteDocumentFile(path string) error {
	return WriteFile(path, func(w io.Writer) error {
		z := gzip.NewWriter(w)
		return errors.Join(r.WriteDocument(z), z.Close())
	})
}

// WriteFile writes a file through a temporary one beside it: after a fault there is no file, or the old one.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".posefleet-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(os.Remove(f.Name())))
		}
	}()
	out := bufio.NewWriterSize(f, 256<<10)
	if err := errors.Join(write(out), out.Flush(), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Compressed returns a gzip writer onto w if the name asks for one, else w itself. What implements io.Closer must be closed.
func Compressed(w io.Writer, name string) io.Writer {
	if filepath.Ext(name) == ".gz" {
		return gzip.NewWriter(w)
	}
	return w
}

// WriteOpenPose writes a clip as a folder of OpenPose files, whole or not at all. The folder may be there already if it is empty.
func WriteOpenPose(dir string, s pose.Source) (err error) {
	dir = filepath.Clean(dir)
	temp, err := os.MkdirTemp(filepath.Dir(dir), ".posefleet-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	if err := pose.ExportOpenPose(temp, s); err != nil {
		return err
	}
	if err := ignoreMissing(os.Remove(dir)); err != nil {
		return err
	}
	return os.Rename(temp, dir)
}
