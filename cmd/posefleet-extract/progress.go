package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/posefleet/posefleet/pose/extract"
)

// bar is the progress line on a terminal. Elsewhere it is silent.
type bar struct {
	s     streams
	on    bool
	start time.Time
	drawn time.Time
	width int
}

// barEvery is the time between two redraws.
const barEvery = 200 * time.Millisecond

func newBar(s streams, quiet bool) *bar {
	return &bar{s: s, on: !quiet && isTerminal(s.err), start: time.Now()}
}

// frames shows the extraction's progress.
func (b *bar) frames(p extract.Progress) {
	if !b.due() {
		return
	}
	took := time.Since(b.start)
	line := fmt.Sprintf("%3.0f %%  frame %d", 100*p.Done, p.Frames)
	if p.Total > 0 {
		line += fmt.Sprintf(" of %d", p.Total)
	}
	line += fmt.Sprintf("  %.1f fps", float64(p.Frames)/took.Seconds())
	b.show(line + left(took, p.Done))
}

// stage returns what shows the progress of a stage after the extraction, with the time that is left of it.
func (b *bar) stage(name string) func(done float64) {
	start := time.Now()
	return func(done float64) {
		if b.due() {
			b.show(fmt.Sprintf("%3.0f %%  %s%s", 100*done, name, left(time.Since(start), done)))
		}
	}
}

// left is how long something takes that has taken so long for a share of it.
func left(took time.Duration, done float64) string {
	if done <= 0.01 {
		return ""
	}
	return fmt.Sprintf("  %s left", time.Duration(float64(took)*(1/done-1)).Round(time.Second))
}

func (b *bar) due() bool {
	if !b.on || time.Since(b.drawn) < barEvery {
		return false
	}
	b.drawn = time.Now()
	return true
}

func (b *bar) show(line string) {
	fmt.Fprintf(b.s.err, "\r%s%s", line, strings.Repeat(" ", max(0, b.width-len(line))))
	b.width = len(line)
}

// clear takes the line away.
func (b *bar) clear() {
	if b.width > 0 {
		fmt.Fprintf(b.s.err, "\r%s\r", strings.Repeat(" ", b.width))
		b.width = 0
	}
}

// summary is the line at the end.
func summary(path string, c *extract.Clip, took time.Duration) string {
	m, q := c.Media, c.Quality
	line := fmt.Sprintf("%s: %d frames of %d×%d, %.1f s, %.1f frames a second", filepath.Base(path), m.FramesDecoded, m.Width, m.Height,
		m.DurationMs/1000, float64(m.FramesDecoded)/took.Seconds())
	if c.Athlete == nil {
		line += "; nobody found"
	} else {
		line += fmt.Sprintf("; people: %d, athlete: #%d (%s)", q.People, c.Athlete.Track, c.Athlete.Reason)
	}
	if m.Partial {
		line += "; the clip is damaged or cut off: frames are missing"
	}
	return line
}
