package conformance

import (
	"fmt"
	"html"
	"strings"
	"time"
)

// The picture of a drill: the faults, what became of each worker, the jobs that were taken, and the queue's states, all over the same time.
const (
	pictureWidth  = 1400
	pictureLeft   = 190
	rowHeight     = 14
	curveHeight   = 180
	pictureMargin = 12
)

// canvas writes SVG with a time axis.
type canvas struct {
	strings.Builder

	begin time.Time
	scale float64 // pixels a second
	y     int
}

func (c *canvas) x(t time.Time) float64 { return pictureLeft + t.Sub(c.begin).Seconds()*c.scale }

func (c *canvas) label(text string, y int) {
	fmt.Fprintf(c, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", pictureLeft-8, y+rowHeight-4, html.EscapeString(text))
}

func (c *canvas) bar(from, to time.Time, y, height int, colour, title string) {
	fmt.Fprintf(c, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"><title>%s</title></rect>`+"\n",
		c.x(from), y, max(1.5, c.x(to)-c.x(from)), height, colour, html.EscapeString(title))
}

// picture is the drill as an SVG document.
func (d *drill) picture() string {
	end := d.begin.Add(time.Second)
	if n := len(d.watch.samples); n > 0 {
		end = d.watch.samples[n-1].at
	}

	c := &canvas{begin: d.begin, scale: (pictureWidth - pictureLeft - pictureMargin) / end.Sub(d.begin).Seconds(), y: pictureMargin}
	d.drawFaults(c)
	d.drawMembers(c, end)
	d.drawCurves(c, end)
	c.axis(end)

	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n"+
		`<rect width="100%%" height="100%%" fill="white"/>`+"\n%s</svg>\n", pictureWidth, c.y+30, c.String())
}

// drawFaults has a row for each kind of trouble.
func (d *drill) drawFaults(c *canvas) {
	for _, k := range troubles() {
		c.label(k.name, c.y)

		for _, e := range d.past {
			if e.trouble.name == k.name {
				c.bar(e.began, e.healed, c.y+2, rowHeight-4, "#c0392b", fmt.Sprintf("%s, %v", k.name, e.healed.Sub(e.began).Round(time.Millisecond)))
			}
		}

		c.y += rowHeight
	}

	c.y += pictureMargin
}

// drawMembers has a row for each worker: its states, and above them a tick for each job that it took.
func (d *drill) drawMembers(c *canvas, end time.Time) {
	colours := map[memberState]string{memberUp: "#d5e8d4", memberDown: "#555555", memberFrozen: "#9ecae1", memberDraining: "#fdd49e"}

	for _, m := range d.members {
		c.label(m.name, c.y+rowHeight/2)

		for i, t := range m.turns {
			until := end
			if i+1 < len(m.turns) {
				until = m.turns[i+1].at
			}

			c.bar(t.at, until, c.y, 2*rowHeight-6, colours[t.state], string(t.state))
		}

		mine := map[int]bool{}
		for _, pid := range m.allPids() {
			mine[pid] = true
		}

		var path strings.Builder

		last := -1.0

		for _, t := range d.watch.takes {
			if x := c.x(t.at); mine[t.pid] && x >= last+0.7 { // closer ones can't be told apart
				last = x
				fmt.Fprintf(&path, "M%.1f %dv%d", x, c.y+4, 2*rowHeight-14)
			}
		}

		fmt.Fprintf(c, `<path d="%s" stroke="#2c6e49" stroke-width="0.6" fill="none"/>`+"\n", path.String())

		c.y += 2 * rowHeight
	}

	c.y += pictureMargin
}

// drawCurves shows what waits, runs and is done.
func (d *drill) drawCurves(c *canvas, end time.Time) {
	curves := []struct {
		name, colour string
		of           func(sample) int64
		most         int64
	}{
		{"waiting and delayed", "#e67e22", func(s sample) int64 { return s.counts.Waiting + s.counts.Delayed }, int64(d.cfg.backlog)},
		{"active", "#2980b9", func(s sample) int64 { return s.counts.Active }, int64(d.cfg.backlog)},
		{"done", "#27ae60", func(s sample) int64 { return s.counts.Completed + s.counts.Failed }, int64(d.cfg.jobs)},
	}

	fmt.Fprintf(c, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="none" stroke="#bbbbbb"/>`+"\n", pictureLeft, c.y, c.x(end)-pictureLeft, curveHeight)

	for i, curve := range curves {
		var points strings.Builder

		last := -1.0

		for _, s := range d.watch.samples {
			if c.x(s.at) < last+0.9 {
				continue
			}

			last = c.x(s.at)
			share := min(1, float64(curve.of(s))/float64(max(1, curve.most)))
			fmt.Fprintf(&points, "%.1f,%.1f ", c.x(s.at), float64(c.y+curveHeight)-share*curveHeight)
		}

		fmt.Fprintf(c, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.2"/>`+"\n", strings.TrimSpace(points.String()), curve.colour)
		fmt.Fprintf(c, `<text x="%d" y="%d" text-anchor="end" fill="%s">%s, of %d</text>`+"\n", pictureLeft-8, c.y+14+i*rowHeight, curve.colour,
			curve.name, curve.most)
	}

	c.y += curveHeight
}

// axis writes the seconds below.
func (c *canvas) axis(end time.Time) {
	step := 5 * time.Second
	for end.Sub(c.begin)/step > 15 {
		step *= 2
	}

	for t := c.begin; t.Before(end); t = t.Add(step) {
		fmt.Fprintf(c, `<text x="%.1f" y="%d" text-anchor="middle">%v</text>`+"\n", c.x(t), c.y+16, t.Sub(c.begin))
	}
}
