package eval

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/posefleet/posefleet/protocol"
)

const groupNobody = "Nobody there"

// nobodyClips show nobody.
var nobodyClips = []string{
	"odd/black_no_person.mp4", "odd/testcard_no_person.mp4", "odd/tiny_16x16.mp4", "videos/decord_corrupted.mp4",
	"videos/decord_phone_rot0.mov", "videos/decord_phone_rot90.mov", "videos/decord_phone_rot180.mov", "videos/decord_phone_rot270.mov",
}

// nobody looks at pictures and clips with nobody.
func (r *runner) nobody(ctx context.Context) ([]Row, error) {
	pictures, wrong, people, clips, nth := 0, 0, 0, map[string]string{}, 0
	for _, pic := range r.pictured {
		if len(pic.Persons) > 0 {
			continue
		}
		if nth++; !r.sampled(nth) {
			continue
		}
		img, err := r.picture(pic.File)
		if err != nil {
			return nil, err
		}
		ours, err := r.look(ctx, img)
		_ = img.Close()
		if err != nil {
			return nil, err
		}
		pictures++
		if len(ours) > 0 {
			wrong++
			people += len(ours)
			fmt.Fprintf(r.Progress, "eval: %d in %s, score %.2f\n", len(ours), pic.File, ours[0].Score)
		}
		path, err := r.pan(ctx, pic, nth)
		if err != nil {
			return nil, err
		}
		clips[pic.File] = path
	}
	for i, name := range nobodyClips {
		if r.sampled(i) {
			clips[name] = r.path(name)
		}
	}
	frames, invented, err := r.invented(ctx, clips)
	return []Row{
		row(groupNobody, "pictures in which somebody is found", float64(wrong)/float64(pictures), pictures).atMost(0.01).note("%d people in all", people),
		row(groupNobody, "frames of clips in which somebody is found", float64(invented)/float64(frames), frames).atMost(0).
			note("in %d clips: files without people, and slow pans over those pictures", len(clips)),
	}, err
}

// pan makes a clip of a picture: the view moves slowly over it, so that no two frames are alike.
func (r *runner) pan(ctx context.Context, pic Picture, nth int) (string, error) {
	path := filepath.Join(r.scratch, fmt.Sprintf("pan-%d.mp4", nth))
	cmd := exec.CommandContext(ctx, "ffmpeg", "-v", "error", "-nostdin", "-y", "-loop", "1", "-framerate", "25", "-i", r.path(pic.File),
		"-t", "1.2", "-vf", "crop=floor(iw*0.45)*2:floor(ih*0.45)*2:iw*0.08*t:ih*0.08*t", "-pix_fmt", "yuv420p", "-c:v", "libx264",
		"-threads", "1", "-preset", "veryfast", "file:"+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make a clip of %s: %w: %s", pic.File, err, out)
	}
	return path, nil
}

// invented counts the frames of clips, and those with somebody in them.
func (r *runner) invented(ctx context.Context, clips map[string]string) (frames, wrong int, err error) {
	for name, path := range clips {
		c, err := r.extract(ctx, path, protocol.Params{})
		if err != nil {
			return frames, wrong, fmt.Errorf("%s: %w", name, err)
		}
		mine := 0
		for _, f := range c.frames {
			frames++
			if len(f.People) > 0 {
				mine++
			}
		}
		if wrong += mine; mine > 0 {
			fmt.Fprintf(r.Progress, "eval: somebody in %d frames of %s\n", mine, name)
		}
	}
	return frames, wrong, nil
}
