package demo

import (
	"context"
	"fmt"

	"github.com/posefleet/posefleet/internal/operator"
)

// addPreview gives the control plane a rendition for its page where no browser plays the clip itself. The analysis is of the clip.
func (d *demo) addPreview(ctx context.Context, o *outcome) error {
	if !o.delivered() || o.clip.info == nil || o.clip.playable() {
		return nil
	}

	path, err := renderPreview(ctx, o.clip.path, d.dir)
	if err != nil {
		return fmt.Errorf("preview: %w", err)
	}

	file, err := openClip(ctx, path)
	if err != nil {
		return fmt.Errorf("preview: %w", err)
	}

	upload, err := d.api.Preview(ctx, o.analysis.ID, clipID, operator.Clip{
		ID: clipID, Name: file.name, Size: file.size, SHA256: file.sha256, ContentType: "video/mp4",
	})
	if err != nil {
		return err
	}

	if err := d.api.Put(ctx, upload, path); err != nil {
		return err
	}

	o.clip.preview = true
	d.term.line("preview", "browsers can't play %s: the page shows an H.264 preview, every frame at its own time", o.clip.info.Codec)

	return nil
}
