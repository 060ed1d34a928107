package signal

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/posefleet/posefleet/pose"
)

const (
	// coreFrames are done at once. Each block sees marginSeconds of real time around it, at least minMargin and at most
	// maxMargin frames: a filter at 8 Hz has forgotten all but a millionth after 0.4 s.
	coreFrames           = 512
	marginSeconds        = 1.5
	minMargin, maxMargin = 64, 512
)

// Filter adds smoothed points to frames. It keeps no state between streams and may be used by several goroutines.
type Filter struct {
	config Config
	body   body
}

// New returns a filter.
func New(c Config) (*Filter, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("signal: %w", err)
	}
	c = c.withDefaults()
	return &Filter{config: c, body: newBody(c)}, nil
}

// Frames yields the frames of in with smoothed points beside the raw ones, which are not touched. It reads ahead by at most
// coreFrames and two margins.
func (f *Filter) Frames(in iter.Seq2[pose.Frame, error]) iter.Seq2[pose.Frame, error] {
	return func(yield func(pose.Frame, error) bool) {
		b := &block{filter: f, breaks: f.config.Breaks}
		for frame, err := range in {
			if err != nil {
				yield(pose.Frame{}, err)
				return
			}
			if b.broken(frame.T) && !b.flush(yield) {
				return
			}
			b.add(frame)
			if n := b.ready(); n > 0 && !b.emit(n, yield) {
				return
			}
		}
		b.flush(yield)
	}
}

// block is the part of the stream that is in memory: frames already yielded, which are the margin before, and those to come.
type block struct {
	filter *Filter
	breaks []float64
	frames []pose.Frame
	times  []float64 // real seconds
	done   int
}

// broken reports whether a frame at t ms has nothing to do with the ones before.
func (b *block) broken(t float64) bool {
	broken := false
	for len(b.breaks) > 0 && t >= b.breaks[0]-0.0005 {
		b.breaks = b.breaks[1:]
		broken = true
	}
	return broken
}

func (b *block) add(f pose.Frame) {
	b.frames = append(b.frames, f)
	b.times = append(b.times, f.T/1000*b.filter.config.TimeScale)
}

// ready is how many frames can be yielded now: coreFrames if their margin is there, else 0.
func (b *block) ready() int {
	end := b.done + coreFrames
	ahead := len(b.frames) - end
	if ahead < minMargin || ahead < maxMargin && b.times[len(b.times)-1]-b.times[end] < marginSeconds {
		return 0
	}
	return coreFrames
}

// emit yields the next n frames and forgets what no later one needs.
func (b *block) emit(n int, yield func(pose.Frame, error) bool) bool {
	w := &window{filter: b.filter, frames: b.frames, times: b.times}
	for _, f := range w.smooth(b.done, b.done+n) {
		if !yield(f, nil) {
			return false
		}
	}
	b.done += n
	keep := max(0, b.done-minMargin)
	for keep > 0 && b.done-keep < maxMargin && b.done < len(b.times) && b.times[b.done]-b.times[keep-1] < marginSeconds {
		keep--
	}
	b.frames, b.times = slices.Clone(b.frames[keep:]), slices.Clone(b.times[keep:])
	b.done -= keep
	return true
}

// flush yields the rest of a scene.
func (b *block) flush(yield func(pose.Frame, error) bool) bool {
	if n := len(b.frames) - b.done; n > 0 && !b.emit(n, yield) {
		return false
	}
	b.frames, b.times, b.done = nil, nil, 0
	return true
}

// window is a run of frames of one scene that is filtered at once.
type window struct {
	filter *Filter
	frames []pose.Frame
	times  []float64
}

// smooth returns the frames from lo to hi with their smoothed points.
func (w *window) smooth(lo, hi int) []pose.Frame {
	out := slices.Clone(w.frames[lo:hi])
	for i := range out {
		out[i].People = slices.Clone(out[i].People)
	}
	for _, track := range w.tracks() {
		p := w.person(track)
		p.filter()
		for i := range out {
			p.put(&out[i], lo+i)
		}
	}
	return out
}

func (w *window) tracks() []int {
	seen := map[int]bool{}
	for _, f := range w.frames {
		for _, p := range f.People {
			seen[p.Track] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
