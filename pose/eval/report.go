package eval

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Report is what one run measured.
type Report struct {
	// Model and SHA256 name the landmark model, Engine what ran it.
	Model  string `json:"model"`
	SHA256 string `json:"sha256"`
	Engine string `json:"engine"`
	// Sample is n where only every n-th picture, frame or clip was looked at; 1 is a whole run.
	Sample int   `json:"sample"`
	Rows   []Row `json:"rows"`
}

// Row is one figure.
type Row struct {
	Group string `json:"group"`
	Name  string `json:"name"`
	// Value is nil where it could not be measured; Note says why.
	Value *float64 `json:"value"`
	// Unit is empty for shares and similarities, which are 0..1.
	Unit string `json:"unit,omitempty"`
	// N is the number of people, points, frames or files that Value is taken over.
	N int `json:"n"`
	// Bar is what the figure is held to, nil where nothing is asked. Most says that Value must not be over it; else it must not be
	// under it.
	Bar  *float64 `json:"bar,omitempty"`
	Most bool     `json:"most,omitempty"`
	Note string   `json:"note,omitempty"`
}

// OK reports whether the row meets its bar. One without a value does not; one without a bar does.
func (r Row) OK() bool {
	switch {
	case r.Bar == nil:
		return true
	case r.Value == nil:
		return false
	case r.Most:
		return *r.Value <= *r.Bar
	}
	return *r.Value >= *r.Bar
}

// row makes one of a value; a value that is not a number is absent.
func row(group, name string, value float64, n int) Row {
	r := Row{Group: group, Name: name, N: n}
	if !math.IsNaN(value) && !math.IsInf(value, 0) {
		v := math.Round(value*10000) / 10000
		r.Value = &v
	}
	return r
}

func (r Row) atLeast(bar float64) Row { r.Bar = &bar; return r }

func (r Row) atMost(bar float64) Row { r.Bar, r.Most = &bar, true; return r }

func (r Row) in(unit string) Row { r.Unit = unit; return r }

func (r Row) note(format string, args ...any) Row { r.Note = fmt.Sprintf(format, args...); return r }

// WriteJSON writes the reports.
func WriteJSON(w io.Writer, reports []*Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(reports)
}

// Markers of the part of a text that Merge replaces.
const (
	markBegin = "<!-- figures: begin -->\n"
	markEnd   = "<!-- figures: end -->\n"
)

// Merge puts tables between the markers of a text; a text without markers is replaced.
func Merge(text, tables string) string {
	head, rest, ok1 := strings.Cut(text, markBegin)
	_, tail, ok2 := strings.Cut(rest, markEnd)
	if !ok1 || !ok2 {
		return tables
	}
	return head + markBegin + tables + "\n" + markEnd + tail
}

// WriteTable writes the reports as Markdown tables: a row a figure, a column a model.
func WriteTable(w io.Writer, reports []*Report) error {
	if len(reports) == 0 {
		return nil
	}
	var b strings.Builder
	columns := []string{"what", "over", "bar"}
	for _, r := range reports {
		columns = append(columns, strings.TrimPrefix(r.Model, "blazepose-"))
	}
	head, line := "| "+strings.Join(columns, " | ")+" |", strings.Repeat("|---", len(columns))+"|"
	group := ""
	for _, first := range reports[0].Rows {
		if first.Group != group {
			group = first.Group
			fmt.Fprintf(&b, "\n## %s\n\n%s\n%s\n", group, head, line)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |", first.Name, over(first), bar(first))
		for _, r := range reports {
			b.WriteString(" " + r.cell(first) + " |")
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cell is this report's value of the row that another report has too.
func (r *Report) cell(like Row) string {
	for _, mine := range r.Rows {
		if mine.Group != like.Group || mine.Name != like.Name {
			continue
		}
		text := "–"
		if mine.Value != nil {
			text = number(*mine.Value, mine.Unit)
		}
		if !mine.OK() {
			text += " ✗"
		}
		return text
	}
	return ""
}

func over(r Row) string {
	text := ""
	if r.N > 0 {
		text = strconv.Itoa(r.N)
	}
	if r.Note != "" {
		text = strings.TrimSpace(text + " " + r.Note)
	}
	return text
}

func bar(r Row) string {
	if r.Bar == nil {
		return ""
	}
	sign := "≥ "
	if r.Most {
		sign = "≤ "
	}
	return sign + number(*r.Bar, r.Unit)
}

func number(v float64, unit string) string {
	text := fmt.Sprintf("%.3f", v)
	text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	if unit != "" {
		text += " " + unit
	}
	return text
}
