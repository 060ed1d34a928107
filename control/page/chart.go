package page

import (
	"fmt"
	"strings"
	"time"
)

// The chart's own units; the browser scales them.
const (
	chartWidth  = 720
	chartHeight = 160
	chartTop    = 8
)

// Chart is some numbers over time.
type Chart struct {
	ID, Title string
	From, To  time.Time
	Series    []Series
}

// Series is one number over time, oldest first. Steps: it stays until the next point. Otherwise a gap between points of more than Gap is
// one in the line too.
type Series struct {
	Name   string
	Points []Point
	Steps  bool
	Gap    time.Duration
}

// Point is a number at a time.
type Point struct {
	At    time.Time
	Value float64
}

// Empty tells whether there is nothing to draw.
func (c Chart) Empty() bool {
	for _, s := range c.Series {
		if len(s.Points) > 0 {
			return false
		}
	}

	return true
}

// Most is the upper end of the scale: the largest value, rounded up to 1, 2 or 5 times a power of ten.
func (c Chart) Most() float64 {
	most := 1.0
	for _, s := range c.Series {
		most = max(most, s.Most())
	}
	for scale := 1.0; ; scale *= 10 {
		for _, step := range []float64{1, 2, 5} {
			if step*scale >= most {
				return step * scale
			}
		}
	}
}

// Box is the SVG's view box.
func (c Chart) Box() string { return fmt.Sprintf("0 0 %d %d", chartWidth, chartHeight) }

// Width is the length of the scale's lines.
func (c Chart) Width() int { return chartWidth }

// Top is where the scale's upper line is.
func (c Chart) Top() int { return chartTop }

// Middle is where the scale's middle line is.
func (c Chart) Middle() int { return (chartTop + chartHeight) / 2 }

// Bottom is where the scale's lower line is.
func (c Chart) Bottom() int { return chartHeight - 1 }

// Full is the upper end of the scale.
func (c Chart) Full() string { return number(c.Most()) }

// Path is the line of a series.
func (c Chart) Path(s Series) string {
	var b strings.Builder
	span := max(c.To.Sub(c.From).Seconds(), 1)
	most := c.Most()
	lastY := 0.0
	for i, p := range s.Points {
		x := min(max(p.At.Sub(c.From).Seconds()/span, 0), 1) * chartWidth
		y := chartTop + (1-p.Value/most)*(chartHeight-chartTop-1)
		switch {
		case i == 0 || s.Gap > 0 && p.At.Sub(s.Points[i-1].At) > s.Gap:
			fmt.Fprintf(&b, "M%.1f %.1f", x, y)
		case s.Steps:
			fmt.Fprintf(&b, "L%.1f %.1fL%.1f %.1f", x, lastY, x, y)
		default:
			fmt.Fprintf(&b, "L%.1f %.1f", x, y)
		}
		lastY = y
	}
	if s.Steps && len(s.Points) > 0 {
		fmt.Fprintf(&b, "L%d %.1f", chartWidth, lastY)
	}

	return b.String()
}

// Now is the latest value. With Least and Most it sums a series up for those who don't see the line.
func (s Series) Now() string {
	if len(s.Points) == 0 {
		return "–"
	}

	return number(s.Points[len(s.Points)-1].Value)
}

// Least is the smallest value.
func (s Series) Least() float64 {
	least := 0.0
	for i, p := range s.Points {
		if i == 0 || p.Value < least {
			least = p.Value
		}
	}

	return least
}

// Most is the largest value.
func (s Series) Most() float64 {
	most := 0.0
	for _, p := range s.Points {
		most = max(most, p.Value)
	}

	return most
}

// number is a value without a tail of zeros.
func number(v float64) string { return fmt.Sprintf("%.4g", v) }
