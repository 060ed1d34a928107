package image

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/posefleet/posefleet/cmd/dev/internal/proc"
)

// part is a share of the image by the beginnings of its paths.
type part struct {
	name  string
	paths []string
	bytes int64
}

// parts are the shares worth naming; what fits none is the base and what it pulled in.
func parts() []part {
	return []part{
		{name: "posefleet", paths: []string{"usr/local/bin/posefleet"}},
		{name: "posefleet-extract", paths: []string{"usr/local/bin/posefleet-extract"}},
		{name: "pose models", paths: []string{"usr/share/posefleet/pose_"}},
		{name: "inference library", paths: []string{"usr/share/posefleet/libonnxruntime"}},
		{name: "ffmpeg", paths: []string{"usr/bin/ffmpeg", "usr/bin/ffprobe", "usr/lib/posefleet/", "libx264", "libdav1d"}},
		{name: "OpenCV and its libraries", paths: []string{
			"libopencv", "liblapack", "libblas", "libgfortran", "libquadmath", "libprotobuf", "libtbb", "libGL", "libX", "libxcb", "libhwloc", "usr/lib/x86_64-linux-gnu/lapack", "usr/lib/x86_64-linux-gnu/blas",
		}},
		{name: "Debian's base"},
	}
}

// sizes prints how large the image is, unpacked and as an archive of compressed layers, and what its big parts are.
func (b *Builder) sizes(ctx context.Context, c *container) error {
	list, err := measure(c.root)
	if err != nil {
		return err
	}

	archive := filepath.Join(b.Work, "posefleet.oci.tar")
	if err := os.RemoveAll(archive); err != nil {
		return err
	}

	if err := proc.Run(ctx, b.buildah("push", "--format", "oci", checkTag, "oci-archive:"+archive)); err != nil {
		return err
	}

	info, err := os.Stat(archive)
	if err != nil {
		return err
	}

	var whole int64
	for _, p := range list {
		whole += p.bytes
	}

	b.say("unpacked %.1f MB, compressed %.1f MB", megabytes(whole), megabytes(info.Size()))

	for _, p := range list {
		fmt.Fprintf(b.Out, "  %-26s %7.1f MB\n", p.name, megabytes(p.bytes))
	}

	return nil
}

// measure adds up the regular files below root by part. The scratch files of the checks are not part of the image.
func measure(root string) ([]part, error) {
	list := parts()

	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		rel := strings.TrimPrefix(path, root+"/")
		if rel == "proc" || rel == "sys" || rel == "dev" || rel == "tmp" {
			return fs.SkipDir
		}

		if !d.Type().IsRegular() {
			return nil
		}

		info, err := d.Info()
		if err != nil {
			return err
		}

		list[partOf(list, rel)].bytes += info.Size()

		return nil
	})

	return list, err
}

// partOf is the index of the part with the longest path that fits; a path without a folder fits the file's name anywhere.
func partOf(list []part, rel string) int {
	best, length := len(list)-1, 0

	for i, p := range list {
		for _, path := range p.paths {
			fits := strings.HasPrefix(rel, path) || !strings.Contains(path, "/") && strings.HasPrefix(filepath.Base(rel), path)
			if fits && len(path) > length {
				best, length = i, len(path)
			}
		}
	}

	return best
}

func megabytes(n int64) float64 { return float64(n) / 1e6 }
