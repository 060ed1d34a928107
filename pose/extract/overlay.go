package extract

import (
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/media"
)

// Overlay says what to draw of a finished clip.
type Overlay struct {
	// Video is the path of an MP4 file with the skeletons drawn in, at the frames' true times. Empty: none.
	Video string
	// Picture is the path of a PNG file with frames from all over the clip. Empty: none.
	Picture string
	// Plain draws nothing: the video is a copy of the clip.
	Plain bool
	// Media tunes decoding and names the programs.
	Media media.Config
	// Progress, if set, is told the share that is done.
	Progress func(done float64)
}

// Draw decodes the clip once more and draws the skeletons into it. Files are whole or absent.
func (c *Clip) Draw(ctx context.Context, o Overlay) (err error) {
	pump, err := startPump(ctx, c.Info, o.Media)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pump.close()) }()
	size := image.Pt(pump.reader.Width, pump.reader.Height)
	d := &drawing{
		clip: c, pump: pump, overlay: o,
		painter: newPainter(c, scale{pump.reader.ScaleX, pump.reader.ScaleY}, size),
	}
	if o.Picture != "" {
		d.sheet = newSheet(size, c.Media.FramesDecoded)
		defer d.sheet.close()
	}
	if o.Video == "" {
		err = d.run(ctx, nil)
	} else {
		err = d.video(ctx, size)
	}
	if err != nil || o.Picture == "" {
		return err
	}
	return WriteFile(o.Picture, d.sheet.encode)
}

// drawing is the second pass over a clip.
type drawing struct {
	clip    *Clip
	pump    *pump
	overlay Overlay
	painter *painter
	sheet   *sheet
}

// video runs the pass with an encoder that writes beside the video's path.
func (d *drawing) video(ctx context.Context, size image.Point) (err error) {
	f, err := os.CreateTemp(filepath.Dir(d.overlay.Video), ".posefleet-*.mp4")
	if err != nil {
		return err
	}
	path, err := filepath.Abs(f.Name())
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(os.Remove(f.Name())))
		}
	}()
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	w, err := media.Create(ctx, path, size.X, size.Y, d.overlay.Media)
	if err != nil {
		return err
	}
	if err := errors.Join(d.run(ctx, w), w.Close()); err != nil {
		return err
	}
	return os.Rename(path, d.overlay.Video)
}

func (d *drawing) run(ctx context.Context, w *media.Writer) error {
	next, stop := iter.Pull2(d.clip.Frames())
	defer stop()
	for {
		pic, err := d.pump.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		frame, err, ok := next()
		if !ok {
			err = fmt.Errorf("frame %d was not there before", pic.Index)
		}
		if err == nil {
			err = d.frame(pic, frame, w)
		}
		d.pump.put(pic)
		if err != nil {
			return err
		}
	}
}

func (d *drawing) frame(pic *picture, f pose.Frame, w *media.Writer) error {
	if !d.overlay.Plain {
		d.painter.paint(&pic.mat, f, pic.Index)
	}
	if d.sheet != nil {
		d.sheet.add(pic)
	}
	if d.overlay.Progress != nil {
		d.overlay.Progress(float64(pic.Index+1) / float64(max(1, d.clip.Media.FramesDecoded)))
	}
	if w == nil {
		return nil
	}
	return w.Write(f.T, pic.pixels)
}
