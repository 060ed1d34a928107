package eval

import (
	"context"
	"fmt"
	"image"
	"math"

	"gocv.io/x/gocv"

	"github.com/posefleet/posefleet/pose"
)

const groupHeights = "People found by their height in the frame"

// bands are shares of the frame's height, and the share of people that must be found.
var bands = []struct {
	name     string
	from, to float64
	bar      float64
	tests    [2]float64 // the heights at which people are set into wide frames
}{
	{"45–70 %", 0.45, 0.70, 0.9, [2]float64{0.5, 0.63}},
	{"25–45 %", 0.25, 0.45, 0.8, [2]float64{0.29, 0.4}},
	{"15–25 %", 0.15, 0.25, 0.6, [2]float64{0.17, 0.22}},
}

func band(height float64) string {
	for _, b := range bands {
		if height >= b.from && height < b.to {
			return b.name
		}
	}
	return ""
}

func count(recall map[string]*[2]int, name string, found bool) {
	c := recall[name]
	if c == nil {
		c = &[2]int{}
		recall[name] = c
	}
	c[1]++
	if found {
		c[0]++
	}
}

// recallRows are rows by band, held to the bars or not.
func recallRows(prefix string, recall map[string]*[2]int, held bool) []Row {
	var rows []Row
	for _, b := range bands {
		c := recall[b.name]
		if c == nil {
			c = &[2]int{}
		}
		found := row(groupHeights, prefix+b.name, float64(c[0])/float64(c[1]), c[1])
		if held {
			found = found.atLeast(b.bar)
		}
		rows = append(rows, found)
	}
	return rows
}

// subject is a person cut out with the surroundings, to be set into a frame.
type subject struct {
	name   string
	img    gocv.Mat
	person Person
}

// wide is the frame that people are set into: 16:9, as phones record.
var wide = image.Pt(1920, 1080)

// heights sets people of several heights into wide frames whose rest shows pictures with nobody.
func (r *runner) heights(ctx context.Context) ([]Row, error) {
	subjects, err := r.subjects(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, s := range subjects {
			_ = s.img.Close()
		}
	}()
	recall, extra, frames := map[string]*[2]int{}, 0, 0
	oks := map[string][]float64{}
	for i, s := range subjects {
		if !r.sampled(i) {
			continue
		}
		for j := range 2 * len(bands) {
			b := bands[j/2]
			ours, p, err := r.distant(ctx, s, b.tests[j%2], 7*i+j)
			if err != nil {
				return nil, err
			}
			frames++
			o := match([]Person{p}, ours)[0]
			hit := o >= 0 && p.found(ours[o])
			count(recall, b.name, hit)
			similarity := 0.0
			if hit {
				similarity = p.OKS(of(ours[o]))
				extra--
			}
			extra += len(ours)
			oks[b.name] = append(oks[b.name], similarity)
		}
	}
	rows := recallRows("set into 1920×1080 frames, ", recall, false)
	for band, c := range r.labelled {
		if recall[band] == nil {
			recall[band] = &[2]int{}
		}
		recall[band][0], recall[band][1] = recall[band][0]+c[0], recall[band][1]+c[1]
	}
	rows = append(rows, recallRows("both together, ", recall, true)...)
	for _, b := range bands {
		rows = append(rows, row(groupHeights, "OKS there, "+b.name, mean(oks[b.name]), len(oks[b.name])))
	}
	return append(rows, row(groupHeights, "people who are not there, per frame", float64(extra)/float64(frames), frames)), nil
}

// subjects are single people in full view, from pictures and clips.
func (r *runner) subjects(ctx context.Context) ([]subject, error) {
	var out []subject
	for _, pic := range r.pictured {
		if len(pic.Persons) != 1 || !pic.Persons[0].Full {
			continue
		}
		img, err := r.picture(pic.File)
		if err != nil {
			return out, err
		}
		out = append(out, subject{pic.File, img, pic.Persons[0]})
	}
	synthetic, err := clipTruth(r.Media, "pose_1.json")
	if err != nil {
		return out, err
	}
	squats, err := referenceTruth(r.Media, "pose_squats.full.json")
	if err != nil {
		return out, err
	}
	for _, c := range []struct {
		file  string
		truth []map[string]TruePoint
		step  int
	}{{"videos/tfjs_synthetic_pose_1.mp4", synthetic, 24}, {"videos/tfjs_squats_5fps.mp4", squats, 13}} {
		err := r.frames(ctx, r.path(c.file), c.step, func(i int, img gocv.Mat) error {
			out = append(out, subject{fmt.Sprintf("%s %d", c.file, i), img.Clone(), personOf(c.truth[i])})
			return nil
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// distant shrinks a subject into a wide frame, so that the person has the given share of its height, and looks at it.
func (r *runner) distant(ctx context.Context, s subject, height float64, nth int) ([]pose.Person, Person, error) {
	scale := height * float64(wide.Y) / s.person.Box.H
	frame, err := r.background(nth)
	if err != nil {
		return nil, Person{}, err
	}
	defer frame.Close()
	cut := image.Rect(0, 0, s.img.Cols(), s.img.Rows())
	// What would be larger than the frame is cut around the person.
	cut = around(cut, s.person.Box, image.Pt(int(float64(wide.X)/scale), int(float64(wide.Y)/scale)))
	size := image.Pt(min(wide.X, int(float64(cut.Dx())*scale)), min(wide.Y, int(float64(cut.Dy())*scale)))
	// Places differ from frame to frame, evenly spread.
	at := image.Pt(int(float64(wide.X-size.X)*fraction(nth, 0.618)), int(float64(wide.Y-size.Y)*fraction(nth, 0.382)))
	view, small := s.img.Region(cut), gocv.NewMat()
	defer view.Close()
	defer small.Close()
	gocv.Resize(view, &small, size, 0, 0, gocv.InterpolationArea)
	spot := frame.Region(image.Rectangle{Min: at, Max: at.Add(size)})
	small.CopyTo(&spot)
	_ = spot.Close()
	ours, err := r.look(ctx, frame)
	return ours, s.person.moved(cut.Min, scale, at), err
}

// around shrinks r to at most size, with the box in the middle where that fits.
func around(r image.Rectangle, box pose.Box, size image.Point) image.Rectangle {
	x, y := box.Centre()
	axis := func(from, to, want int, c float64) (int, int) {
		if to-from <= want {
			return from, to
		}
		a := min(max(int(c)-want/2, from), to-want)
		return a, a + want
	}
	x0, x1 := axis(r.Min.X, r.Max.X, size.X, x)
	y0, y1 := axis(r.Min.Y, r.Max.Y, size.Y, y)
	return image.Rect(x0, y0, x1, y1)
}

// moved is the person after a cut, a change of size and a move.
func (p Person) moved(cut image.Point, scale float64, to image.Point) Person {
	x := func(v float64) float64 { return (v-float64(cut.X))*scale + float64(to.X) }
	y := func(v float64) float64 { return (v-float64(cut.Y))*scale + float64(to.Y) }
	q := Person{Full: p.Full, Box: pose.Box{X: x(p.Box.X), Y: y(p.Box.Y), W: p.Box.W * scale, H: p.Box.H * scale}, Points: map[string]TruePoint{}}
	for name, at := range p.Points {
		q.Points[name] = TruePoint{x(at.X), y(at.Y), at.Hidden}
	}
	return q
}

// fraction is the fractional part of n times step.
func fraction(n int, step float64) float64 {
	_, f := math.Modf(float64(n) * step)
	return f
}

// background is a wide frame that shows a picture with nobody.
func (r *runner) background(nth int) (gocv.Mat, error) {
	var empty []Picture
	for _, p := range r.pictured {
		if len(p.Persons) == 0 {
			empty = append(empty, p)
		}
	}
	img, err := r.picture(empty[nth%len(empty)].File)
	if err != nil {
		return img, err
	}
	defer img.Close()
	h := img.Cols() * wide.Y / wide.X
	top := max(0, (img.Rows()-h)/2)
	view := img.Region(image.Rect(0, top, img.Cols(), min(img.Rows(), top+h)))
	defer view.Close()
	frame := gocv.NewMat()
	gocv.Resize(view, &frame, wide, 0, 0, gocv.InterpolationLinear)
	return frame, nil
}
