package eval

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/media"
	"github.com/posefleet/posefleet/pose/synth"
	"github.com/posefleet/posefleet/protocol"
)

const groupTracks = "Two people, drawn with exact truth"

// meetRate is the frame rate of the drawn clips, meetSize their size.
const meetRate, meetWidth, meetHeight = 25.0, 640, 360

// tracks measures who is who in drawn clips of two people, as they are, and re-encoded, at half the size and with a cut.
func (r *runner) tracks(ctx context.Context) ([]Row, error) {
	var all, plain idTally
	same, variants := 0, 0
	for i, m := range synth.Meetings(meetWidth, meetHeight) {
		if !r.sampled(i) {
			continue
		}
		path, truth, err := drawMeeting(ctx, r.scratch, m)
		if err != nil {
			return nil, err
		}
		for _, v := range meetVariants() {
			copied, err := v.make(ctx, path)
			if err != nil {
				return nil, err
			}
			t, err := r.meeting(ctx, copied, v, truth)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", m.Name, v.name, err)
			}
			fmt.Fprintf(r.Progress, "eval: %s, %s: %s\n", m.Name, v.name, t)
			all.add(t)
			if v.name == asDrawn {
				plain.add(t)
			}
			variants++
			if t.athlete == 0 {
				same++
			}
		}
	}
	share := func(n, of int) float64 { return float64(n) / float64(of) }
	return []Row{
		row(groupTracks, "frames with everybody under the right id, clips as drawn", share(plain.right, plain.frames), plain.frames).atLeast(0.95).
			note("frames: side by side, crossing, leaving, returning"),
		row(groupTracks, "the same, all variants", share(all.right, all.frames), all.frames).atLeast(0.95).
			note("frames: as drawn, coarsely encoded, half the size, with a cut"),
		row(groupTracks, "frames with somebody twice", share(all.twice, all.frames), all.frames).atMost(0),
		row(groupTracks, "frames with somebody who is not there", share(all.extra, all.frames), all.frames),
		row(groupTracks, "clips whose athlete is who moves most", share(same, variants), variants).atLeast(1),
	}, nil
}

const asDrawn = "as drawn"

// variant is a way to store a drawn clip.
type variant struct {
	name  string
	args  []string
	scale float64
	// cut is the time in seconds from which the picture is mirrored: another scene with the same people. 0: none.
	cut float64
}

func meetVariants() []variant {
	return []variant{
		{name: asDrawn, scale: 1},
		{name: "coarsely encoded", args: []string{"-crf", "38", "-preset", "ultrafast"}, scale: 1},
		{name: "half the size", args: []string{"-vf", "scale=iw/2:ih/2", "-crf", "23"}, scale: 0.5},
		{name: "with a cut", args: []string{"-vf", "hflip=enable='gte(t,2)',negate=components=u+v:enable='gte(t,2)'", "-crf", "21"}, scale: 1, cut: 2},
	}
}

// make stores the clip in this way.
func (v variant) make(ctx context.Context, path string) (string, error) {
	if len(v.args) == 0 {
		return path, nil
	}
	out := strings.TrimSuffix(path, ".mp4") + "-" + strings.ReplaceAll(v.name, " ", "-") + ".mp4"
	args := append([]string{"-v", "error", "-nostdin", "-y", "-i", "file:" + path, "-c:v", "libx264", "-threads", "1"}, v.args...)
	if text, err := exec.CommandContext(ctx, "ffmpeg", append(args, "file:"+out)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("store a clip %s: %w: %s", v.name, err, text)
	}
	return out, nil
}

// drawMeeting draws a clip and returns the truth by frame and actor.
func drawMeeting(ctx context.Context, dir string, m synth.Meeting) (string, [][]synth.Truth, error) {
	path := filepath.Join(dir, strings.ReplaceAll(m.Name, " ", "-")+".mp4")
	w, err := media.Create(ctx, path, m.Scene.Width, m.Scene.Height, media.Config{})
	if err != nil {
		return "", nil, err
	}
	painter, picture := synth.NewPainter(m.Scene), make([]byte, 3*m.Scene.Width*m.Scene.Height)
	var truth [][]synth.Truth
	for i := range int(m.Seconds * meetRate) {
		t := float64(i) / meetRate
		truth = append(truth, painter.Draw(t, picture))
		if err := w.Write(1000*t, picture); err != nil {
			return "", nil, err
		}
	}
	return path, truth, w.Close()
}

// meeting extracts a clip and compares who is who.
func (r *runner) meeting(ctx context.Context, path string, v variant, truth [][]synth.Truth) (idTally, error) {
	c, err := r.extract(ctx, path, protocol.Params{})
	if err != nil {
		return idTally{}, err
	}
	if len(c.frames) != len(truth) {
		return idTally{}, fmt.Errorf("%d frames, drawn were %d", len(c.frames), len(truth))
	}
	cut := len(truth)
	if v.cut > 0 {
		cut = int(v.cut * meetRate)
	}
	at := func(frame int) []synth.Truth { return v.seen(truth[frame], frame >= cut, float64(c.Media.Width)) }
	// No track crosses a cut, so that each scene has its own ids.
	t := c.identities(0, cut, at)
	t.add(c.identities(cut, len(truth), at))
	if t.athlete < 0 {
		t.athlete = c.athleteOf(at)
	}
	return t, nil
}

// seen is the truth in the stored picture.
func (v variant) seen(truth []synth.Truth, mirrored bool, width float64) []synth.Truth {
	out := make([]synth.Truth, len(truth))
	for i, t := range truth {
		out[i] = synth.Truth{Shown: t.Shown}
		for _, k := range t.Points {
			k.X, k.Y = (k.X+0.5)*v.scale-0.5, (k.Y+0.5)*v.scale-0.5
			if mirrored {
				k.X = width - 1 - k.X
			}
			out[i].Points = append(out[i].Points, k)
		}
		out[i].Box, _ = pose.Bounds(out[i].Points)
	}
	return out
}

// idTally counts frames.
type idTally struct {
	frames, right, twice, extra int
	// athlete is the actor whom the athlete shows; -1 before that is known.
	athlete int
	// faults are the runs of frames that are not right, in the order of time.
	faults []idFault
}

// idFault is what is wrong in the frames from one to another, the last one included.
type idFault struct {
	from, to int
	what     string
}

func (t idTally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d frames right, %d with somebody twice, %d with nobody's skeleton, athlete is actor %d", t.right, t.frames, t.twice, t.extra, t.athlete)
	for _, f := range t.faults {
		fmt.Fprintf(&b, "; %d-%d %s", f.from, f.to, f.what)
	}
	return b.String()
}

func (t *idTally) add(o idTally) {
	t.frames, t.right, t.twice, t.extra = t.frames+o.frames, t.right+o.right, t.twice+o.twice, t.extra+o.extra
	t.faults = append(t.faults, o.faults...)
}

// fault notes that a frame is not right.
func (t *idTally) fault(frame int, what string) {
	if n := len(t.faults) - 1; n >= 0 && t.faults[n].what == what && t.faults[n].to >= frame-1 {
		t.faults[n].to = frame
		return
	}
	t.faults = append(t.faults, idFault{frame, frame, what})
}

const (
	// nearBody is how far the points of ours may be from those of an actor on average, in parts of the body's height.
	nearBody = 0.15
	// halfSeen is the share of points that must be seen for an actor to be asked for.
	halfSeen = 0.6
)

// whose is the actor whom a person shows, -1 if none.
func whose(p pose.Person, truth []synth.Truth) int {
	best, least := -1, nearBody
	for i, t := range truth {
		if !t.Shown {
			continue
		}
		if off := min(offBody(p, t, false), offBody(p, t, true)); off < least {
			best, least = i, off
		}
	}
	return best
}

// offBody is the mean distance of the points in parts of the body's height; crossed takes left for right, which is another fault than to take
// one person for another.
func offBody(p pose.Person, t synth.Truth, crossed bool) float64 {
	skeleton := pose.BlazePose33()
	sum, n := 0.0, 0
	for j, k := range p.Keypoints {
		name := skeleton.Keypoints[j]
		if !k.Found || spread(name) == 0 {
			continue
		}
		want := t.Points[j]
		if crossed {
			want = t.Points[max(0, skeleton.Index(opposite(name)))]
		}
		sum += math.Hypot(k.X-want.X, k.Y-want.Y)
		n++
	}
	if n == 0 {
		return math.Inf(1)
	}
	return sum / float64(n) / max(1, t.Box.H)
}

// opposite is the name of the point on the other side.
func opposite(name string) string {
	if part, ok := strings.CutPrefix(name, "left_"); ok {
		return "right_" + part
	}
	if part, ok := strings.CutPrefix(name, "right_"); ok {
		return "left_" + part
	}
	return name
}

// clearShare is the share of an actor's points that can be seen.
func clearShare(t synth.Truth) float64 {
	n := 0.0
	for _, k := range t.Points {
		n += k.Score
	}
	return n / float64(max(1, len(t.Points)))
}

// identities compares the ids in the frames from one to before another: each actor's id is the one that it has most often.
func (c *clip) identities(from, to int, at func(int) []synth.Truth) idTally {
	out := idTally{frames: to - from, athlete: -1}
	votes := map[[2]int]int{}
	for f := from; f < to; f++ {
		truth := at(f)
		for _, p := range c.frames[f].People {
			votes[[2]int{whose(p, truth), p.Track}]++
		}
	}
	id := func(actor int) int {
		best, most := 0, 0
		for k, n := range votes {
			if k[0] == actor && (n > most || n == most && k[1] < best) {
				best, most = k[1], n
			}
		}
		return best
	}
	for f := from; f < to; f++ {
		if what := out.compare(c.frames[f].People, at(f), id); what == "" {
			out.right++
		} else {
			out.fault(f, what)
		}
	}
	return out
}

// compare counts what is wrong with the people of a frame and says it in words; id is the one that an actor should have.
func (t *idTally) compare(people []pose.Person, truth []synth.Truth, id func(actor int) int) string {
	var wrong []string
	count := make([]int, len(truth))
	for _, p := range people {
		actor := whose(p, truth)
		if actor < 0 {
			t.extra++
			wrong = append(wrong, "nobody's skeleton")
			continue
		}
		if count[actor]++; p.Track != id(actor) {
			wrong = append(wrong, fmt.Sprintf("actor %d has another id", actor))
		}
	}
	for i, n := range count {
		switch {
		case n > 1:
			t.twice++
			wrong = append(wrong, fmt.Sprintf("actor %d twice", i))
		case n == 0 && truth[i].Shown && clearShare(truth[i]) >= halfSeen:
			wrong = append(wrong, fmt.Sprintf("without actor %d", i))
		}
	}
	return strings.Join(wrong, ", ")
}

// athleteOf is the actor whom the athlete shows most often.
func (c *clip) athleteOf(at func(int) []synth.Truth) int {
	if c.Athlete == nil {
		return -1
	}
	votes := map[int]int{}
	for f := range c.frames {
		if p, ok := c.person(f, c.Athlete.Track); ok {
			votes[whose(p, at(f))]++
		}
	}
	best := -1
	for actor, n := range votes {
		if best < 0 || n > votes[best] {
			best = actor
		}
	}
	return best
}
