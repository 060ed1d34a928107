package study

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Report is the whole study.
type Report struct {
	Quiet   Day     `json:"failureFree"`
	Window  Day     `json:"failureWindow"`
	Spaces  []Space `json:"space"`
	Without Peak    `json:"peakWithout"`
	With    Peak    `json:"peakWith"`
	Months  []Month `json:"months"`
}

// New reckons the study.
func New() Report {
	r := Report{Quiet: Quiet().Run(), Window: Window().Run(), Spaces: Typical().Spaces()}
	r.Without, r.With = Typical().Peaks()
	r.Months = Months(r.Window, 2, 4)
	return r
}

// Write shows the study to people.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	writeDay(&b, "A day without failures", Quiet(), r.Quiet)
	writeDay(&b, "The same day in the failure window", Window(), r.Window)
	r.writeMonths(&b)
	r.writeCosts(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeDay(b *strings.Builder, title string, m Model, d Day) {
	fmt.Fprintf(b, "%s: %s shipments, %s deliveries, %s effects without a ledger\n", title, group(m.Shipments), group(d.Deliveries), group(d.Effects))
	if len(m.Sources) > 0 {
		var names, times []string
		for i, s := range m.Sources {
			names = append(names, fmt.Sprintf("%s %.2f", s.Name, s.Probability))
			times = append(times, strconv.Itoa(d.Sources[i]))
		}
		fmt.Fprintf(b, "delivered again: sources %s (%s), %s duplicate invoice lines\n",
			strings.Join(times, ", "), strings.Join(names, ", "), group(d.InvoiceLines))
	}
	b.WriteString("\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  key\tprocessed/suppressed/effects/prevented/ledger")
	for _, o := range d.Outcomes {
		fmt.Fprintf(t, "  %s\t%d/%d/%d/%d/%d\n", o.Scope, o.Processed, o.Suppressed, o.Effects, o.Prevented, o.Ledger)
	}
	_ = t.Flush() // into memory
	b.WriteString("\n")
}

func (r *Report) writeMonths(b *strings.Builder) {
	b.WriteString("What a month costs without a ledger\n\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "failure windows\tduplicate effects\tduplicate invoice lines\t")
	for _, m := range r.Months {
		fmt.Fprintf(t, "%d\t%s\t%s\t\n", m.Windows, group(m.Effects), group(m.InvoiceLines))
	}
	_ = t.Flush()
	b.WriteString("\n")
}

func (r *Report) writeCosts(b *strings.Builder) {
	l := Typical()
	fmt.Fprintf(b, "What the ledger costs: %s keyed writes a day, %.0f MB of memory\n\n", group(l.WritesPerDay), l.Memory/1e6)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "window\tbytes a record\tMB held\tof the memory\t")
	for _, s := range r.Spaces {
		fmt.Fprintf(t, "%.0f h\t%d\t%.2f\t%.2f %%\t\n", s.Window.Hours(), s.Record, s.Bytes/1e6, 100*s.Share)
	}
	_ = t.Flush()
	b.WriteString("\n")
	t = tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "busiest hour\twithout\twith\ttimes\t")
	for _, row := range []struct {
		name          string
		without, with float64
	}{
		{"rows written per second", r.Without.Writes, r.With.Writes},
		{"rows read per second", r.Without.Reads, r.With.Reads},
		{"writes per read", r.Without.WriteRatio, r.With.WriteRatio},
	} {
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t\n", row.name, row.without, row.with, row.with/row.without)
	}
	_ = t.Flush()
}

// group writes a number with commas between thousands.
func group(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
