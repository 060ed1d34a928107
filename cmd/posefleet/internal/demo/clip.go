package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/posefleet/posefleet/pose/media"
)

// clip is one file on its way through the demo.
type clip struct {
	// name is what people see, path the file that is uploaded.
	name string
	path string
	size int64
	// sha256 is the sum of the file in hex.
	sha256      string
	contentType string
	// info is nil for a file that is no clip: it is uploaded all the same, since judging it is the system's part.
	info *media.Info
	// preview says that the page has a rendition of the clip.
	preview bool
}

// openClip looks at the file at path. An error means that there is no such file to upload.
func openClip(ctx context.Context, path string) (*clip, error) {
	c := &clip{name: filepath.Base(path), path: path, contentType: contentType(path)}

	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	if stat, err := f.Stat(); err != nil || !stat.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a file", path), err)
	}

	h := sha256.New()
	if c.size, err = io.Copy(h, f); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}

	c.sha256 = hex.EncodeToString(h.Sum(nil))

	if info, err := media.Probe(ctx, path, media.Config{}); err == nil {
		c.info = info
	}

	return c, nil
}

// contentType goes by the name, as an uploading browser does; nothing in the system relies on it.
func contentType(path string) string {
	if t := mime.TypeByExtension(strings.ToLower(filepath.Ext(path))); strings.HasPrefix(t, "video/") {
		return t
	}

	return "application/octet-stream"
}

// playable tells whether the browsers at hand play the clip as it is, with the picture that the coordinates are made for.
func (c *clip) playable() bool {
	return c.info != nil && !c.info.Mirrored &&
		slices.Contains([]string{"mov", "mp4", "webm"}, c.info.Container) &&
		slices.Contains([]string{"h264", "vp8", "vp9", "av1"}, c.info.Codec)
}

// describe is the clip in one line.
func (c *clip) describe() string {
	if c.info == nil {
		return fmt.Sprintf("%s (%d bytes, not a clip as far as ffprobe can tell)", c.name, c.size)
	}

	return fmt.Sprintf("%s (%s, %d×%d, %.1f s, %.4g fps)", c.name, c.info.Codec, c.info.Width, c.info.Height,
		c.info.DurationMs/1000, max(c.info.AverageFPS, c.info.NominalFPS))
}
