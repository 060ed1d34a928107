package study

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"
)

// Plot is a picture of the study.
type Plot struct {
	// Name is that of its file, without the ending.
	Name   string
	panels []panel
}

// panel is a group of bars for each of its rows.
type panel struct {
	title, unit string
	rows        []string
	series      []series
}

type series struct {
	name   string
	values []float64
}

// Plots shows measured days beside the model's: effects, the size of a record, the time of a delivery, real repeats.
func (d *Document) Plots() []Plot {
	var out []Plot
	if both(d.Measured) {
		quiet, window := d.Measured[DayQuiet], d.Measured[DayWindow]
		out = append(out,
			Plot{Name: "effects", panels: []panel{effects("A day without failures", d.Quiet, quiet), effects("Failure window", d.Window, window)}},
			Plot{Name: "records", panels: []panel{records(d.Report, window)}},
			Plot{Name: "times", panels: times(d.Measured)})
	}
	if both(d.Real) {
		out = append(out, Plot{Name: "repeats", panels: repeats(d.Real[DayWindow])})
	}

	return out
}

// label names a variant for people.
func label(s Scope) string { return cmp.Or(string(s), "no ledger") }

func labels(all []Scope) []string {
	var out []string
	for _, s := range all {
		out = append(out, label(s))
	}
	return out
}

// databases are those of the measured days, in their order.
func databases(days ...[]Measured) []string {
	var out []string
	for _, m := range slices.Concat(days...) {
		if !slices.Contains(out, m.Database) {
			out = append(out, m.Database)
		}
	}
	return out
}

// values are one number of each variant's day in a database.
func values(days []Measured, database string, scopes []Scope, of func(Measured) float64) []float64 {
	out := make([]float64, len(scopes))
	for _, m := range days {
		if i := slices.Index(scopes, m.Scope); i >= 0 && m.Database == database {
			out[i] = of(m)
		}
	}
	return out
}

func effects(title string, d Day, days []Measured) panel {
	p := panel{title: title + ": effects", rows: labels(Variants())}
	model := []float64{float64(d.Effects)}
	for _, o := range d.Outcomes {
		model = append(model, float64(o.Effects))
	}
	p.series = append(p.series, series{"model", model})
	for _, name := range databases(days) {
		p.series = append(p.series, series{name, values(days, name, Variants(), func(m Measured) float64 { return float64(m.Effects) })})
	}
	return p
}

func records(r Report, days []Measured) panel {
	p := panel{title: "Bytes a record, indexes included", unit: "B", rows: labels(Scopes())}
	for _, s := range r.Spaces[:2] { // the two sizes that are reckoned with
		p.series = append(p.series, series{fmt.Sprintf("reckoned, %d", s.Record), slices.Repeat([]float64{float64(s.Record)}, len(Scopes()))})
	}
	for _, name := range databases(days) {
		p.series = append(p.series, series{name, values(days, name, Scopes(), func(m Measured) float64 { return m.RecordBytes })})
	}
	return p
}

func times(measured map[string][]Measured) []panel {
	var out []panel
	for _, name := range databases(measured[DayQuiet], measured[DayWindow]) {
		p := panel{title: name + ": time of a delivery, its commit included (median)", unit: "µs", rows: labels(Variants())}
		for _, day := range []string{DayQuiet, DayWindow} {
			p.series = append(p.series, series{day, values(measured[day], name, Variants(), func(m Measured) float64 { return micros(m.Median) })})
		}
		out = append(out, p)
	}
	return out
}

// repeats are the deliveries of a day with real repeats by what brought them, and what each key made of them.
func repeats(days []Real) []panel {
	sources := panel{title: "Failure window, real repeats: deliveries by what brought them again"}
	effects := panel{title: "Failure window, real repeats: effects", rows: labels(Variants())}
	for _, s := range Sources() {
		sources.rows = append(sources.rows, s.Name)
	}
	for _, r := range append([]Real{Window().asReal()}, days...) {
		name := cmp.Or(r.Database, "model")
		var counts []float64
		for _, n := range r.Sources {
			counts = append(counts, float64(n))
		}
		sources.series = append(sources.series, series{name, counts})
		effects.series = append(effects.series, series{name, values(r.Scopes, r.Database, Variants(), func(m Measured) float64 { return float64(m.Effects) })})
	}

	return []panel{sources, effects}
}

// Sizes of a plot in pixels.
const (
	plotWidth  = 760
	plotLeft   = 200 // room for the rows' names
	plotRight  = 80  // and for the numbers
	barHeight  = 13
	rowGap     = 12
	headHeight = 46
)

// colours tell the series apart, on light and dark ground; the names stand beside them in the same order as the bars.
func colours() []string { return []string{"#8c8c8c", "#2f6fb3", "#c2571a", "#2e8b57"} }

// SVG draws the plot. The same figures give the same bytes.
func (p Plot) SVG() string {
	height := 0
	for _, one := range p.panels {
		height += one.height()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"title\">\n",
		plotWidth, height, plotWidth, height)
	b.WriteString("<!-- Generated from measured.json by control/study; drawn anew by: go test ./control/study -run TestPlots -measure -->\n")
	fmt.Fprintf(&b, "<title id=\"title\">%s</title>\n", html.EscapeString(p.title()))
	b.WriteString("<style>text{font:12px sans-serif;fill:#222}.h{font-weight:bold}.n{fill:#555}@media(prefers-color-scheme:dark){text{fill:#eee}.n{fill:#bbb}}</style>\n")
	y := 0
	for _, one := range p.panels {
		one.draw(&b, y)
		y += one.height()
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p Plot) title() string {
	var all []string
	for _, one := range p.panels {
		all = append(all, one.title)
	}
	return strings.Join(all, "; ")
}

func (p *panel) rowHeight() int { return len(p.series)*barHeight + rowGap }

func (p *panel) height() int { return headHeight + len(p.rows)*p.rowHeight() + rowGap }

func (p *panel) draw(b *strings.Builder, y int) {
	fmt.Fprintf(b, "<text class=\"h\" x=\"8\" y=\"%d\">%s</text>\n", y+16, html.EscapeString(p.title))
	x := plotLeft
	for i, s := range p.series {
		fmt.Fprintf(b, "<rect x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">%s</text>\n",
			x, y+26, colours()[i], x+14, y+35, html.EscapeString(s.name))
		x += 30 + 8*len(s.name)
	}
	most := 0.0
	for _, s := range p.series {
		most = max(most, slices.Max(s.values))
	}
	for i, name := range p.rows {
		top := y + headHeight + i*p.rowHeight()
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", plotLeft-8, top+len(p.series)*barHeight/2+4, html.EscapeString(name))
		for j, s := range p.series {
			width := s.values[i] / max(most, 1) * (plotWidth - plotLeft - plotRight)
			fmt.Fprintf(b, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/><text class=\"n\" x=\"%.1f\" y=\"%d\">%s</text>\n",
				plotLeft, top+j*barHeight, width, barHeight-2, colours()[j], plotLeft+width+5, top+j*barHeight+barHeight-3,
				strings.TrimSpace(group(int(s.values[i]+0.5))+" "+p.unit))
		}
	}
}
