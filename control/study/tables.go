package study

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteMeasured shows what was measured to people.
func (d *Document) WriteMeasured(w io.Writer) error {
	var b strings.Builder
	for _, day := range Days() {
		writeMeasured(&b, "Measured, "+day, d.Measured[day])
	}
	for _, day := range Days() {
		for i := range d.Real[day] {
			r := &d.Real[day][i]
			fmt.Fprintf(&b, "Repeats for real, %s, %s: %s events, %s deliveries in %.0f s\n", day, r.Database, group(r.Events), group(r.Deliveries), r.Took.Seconds())
			fmt.Fprintf(&b, "%d replies lost, %d failovers that forgot %d ends, %d workers lost; came again: sources %s, %d duplicate invoice lines\n\n",
				r.Made.LostReplies, r.Made.Failovers, r.Made.Unseen, r.Made.LostWorkers, strings.Join(texts(r.Sources), ", "), r.InvoiceLines)
			writeMeasured(&b, "", r.Scopes)
		}
	}
	_, err := io.WriteString(w, b.String())

	return err
}

func writeMeasured(b *strings.Builder, title string, days []Measured) {
	if len(days) == 0 {
		return
	}
	if title != "" {
		b.WriteString(title + "\n\n")
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "database\tdeliveries\tsuppressed\teffects\tledger\tbytes a record\tµs a write\tmedian\t   key")
	for _, m := range days {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%.0f\t%.0f\t%.0f\t   %s\n", m.Database, m.Deliveries, m.Suppressed, m.Effects, m.Ledger,
			m.RecordBytes, micros(m.PerWrite), micros(m.Median), label(m.Scope))
	}
	_ = t.Flush() // into memory
	b.WriteString("\n")
}

// Tables are those of docs/ledger.md, in Markdown. Each begins with a head that no other has.
func (d *Document) Tables() []string { return []string{d.costTable(), d.recordTable(), d.realTable()} }

// costTable is rows, bytes and time of each key.
func (d *Document) costTable() string {
	var b strings.Builder
	b.WriteString("| database | key | rows, quiet | bytes a record | µs a delivery, quiet (median) | rows, window | bytes a record | µs a delivery, window (median) |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|\n")
	for _, name := range databases(d.Measured[DayQuiet]) {
		for _, scope := range Variants() {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, label(scope), column(d.Measured[DayQuiet], name, scope), column(d.Measured[DayWindow], name, scope))
		}
	}

	return b.String()
}

// column is rows, bytes and time of a variant's day.
func column(days []Measured, database string, scope Scope) string {
	m := find(days, database, scope)

	return fmt.Sprintf("%s | %s | %s", group(m.Ledger), orDash(m.RecordBytes), timing(m))
}

func timing(m Measured) string {
	return fmt.Sprintf("%s (%s)", group(int(micros(m.PerWrite)+0.5)), group(int(micros(m.Median)+0.5)))
}

// recordTable is what the bytes of a record consist of.
func (d *Document) recordTable() string {
	var b strings.Builder
	b.WriteString("| database | key | its length | row | index of the key | index of the expiry | beside | together |\n|---|---|---|---|---|---|---|---|\n")
	for _, name := range databases(d.Measured[DayQuiet]) {
		for _, scope := range Scopes() {
			m := find(d.Measured[DayQuiet], name, scope)
			fmt.Fprintf(&b, "| %s | %s | %.1f | %s | %s | %s | %s | %s |\n", name, label(scope), m.Record.Key, orDash(m.Record.Row), orDash(m.Record.KeyIndex),
				orDash(m.Record.Expiry), orDash(m.Record.Rest), orDash(m.RecordBytes))
		}
	}

	return b.String()
}

// realTable holds the days with real repeats against the model's.
func (d *Document) realTable() string {
	columns := d.realColumns()
	var b strings.Builder
	line := func(name string, of func(realColumn) string) {
		b.WriteString("| " + name + " |")
		for _, c := range columns {
			b.WriteString(" " + of(c) + " |")
		}
		b.WriteString("\n")
	}
	line("repeats for real", func(c realColumn) string { return c.title })
	b.WriteString("|---|" + strings.Repeat("---|", len(columns)) + "\n")
	line("events", func(c realColumn) string { return group(c.day.Events) })
	for i, s := range Sources() {
		line("… "+s.Name, func(c realColumn) string { return group(c.day.Sources[i]) })
	}
	line("deliveries", func(c realColumn) string { return group(c.day.Deliveries) })
	line("invoice lines twice without a ledger", func(c realColumn) string { return group(c.day.InvoiceLines) })
	line("no ledger: effects", func(c realColumn) string { return group(c.of("").Effects) })
	for _, s := range Scopes() {
		line(label(s), func(c realColumn) string { return c.outcome(s) })
	}
	for _, s := range Variants() {
		line("µs a delivery (median), "+label(s), func(c realColumn) string { return c.timing(s) })
	}
	line("bytes a record, "+label(ScopeEvent), func(c realColumn) string { return orDash(c.of(ScopeEvent).RecordBytes) })

	return b.String()
}

// realColumn is a day of the model, or one with real repeats.
type realColumn struct {
	title string
	day   Real
}

func (d *Document) realColumns() []realColumn {
	var out []realColumn
	for _, day := range Days() {
		name := map[string]string{DayQuiet: "quiet", DayWindow: "window"}[day]
		out = append(out, realColumn{name + ": model", ModelOf(day).asReal()})
		for _, r := range d.Real[day] {
			out = append(out, realColumn{r.Database, r})
		}
	}

	return out
}

// asReal is the model's day in the form of a real one.
func (m Model) asReal() Real {
	day := m.Run()
	out := Real{
		Shipments: m.Shipments, Events: m.Shipments * len(life()), Deliveries: day.Deliveries, InvoiceLines: day.InvoiceLines, Wanted: day.Effects,
		Sources: append(day.Sources, make([]int, len(Sources())-len(day.Sources))...),
		Scopes:  []Measured{{Effects: day.Effects, Deliveries: day.Deliveries}},
	}
	for _, o := range day.Outcomes {
		out.Scopes = append(out.Scopes, Measured{Scope: o.Scope, Deliveries: day.Deliveries, Suppressed: o.Suppressed, Effects: o.Effects, Ledger: o.Ledger})
	}

	return out
}

func (c realColumn) of(scope Scope) Measured { return find(c.day.Scopes, c.day.Database, scope) }

// outcome is processed/suppressed/effects/prevented/ledger.
func (c realColumn) outcome(scope Scope) string {
	m := c.of(scope)

	return strings.Join(texts([]int{m.Deliveries - m.Suppressed, m.Suppressed, m.Effects, c.day.Prevented(m), m.Ledger}), "/")
}

func (c realColumn) timing(scope Scope) string {
	if m := c.of(scope); m.PerWrite > 0 {
		return timing(m)
	}

	return "–"
}

func find(days []Measured, database string, scope Scope) Measured {
	i := slices.IndexFunc(days, func(m Measured) bool { return m.Database == database && m.Scope == scope })
	if i < 0 {
		return Measured{}
	}

	return days[i]
}

func orDash(n float64) string {
	if n < 0.5 {
		return "–"
	}

	return group(int(n + 0.5))
}

func texts(numbers []int) []string {
	var out []string
	for _, n := range numbers {
		out = append(out, strconv.Itoa(n))
	}

	return out
}
