package study

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/posefleet/posefleet/control/store"
)

// EffectShipment is the ledger's name of the model's events.
const EffectShipment store.Effect = "shipment"

// Measured is a day that really happened, in one database.
type Measured struct {
	Database string `json:"database"`
	// Scope is the ledger's key; "" is the day without a ledger.
	Scope Scope `json:"scope"`
	// Deliveries, Effects, Suppressed and Ledger are counted in the database, beside the model's.
	Deliveries int `json:"deliveries"`
	Suppressed int `json:"suppressed"`
	Effects    int `json:"effects"`
	Ledger     int `json:"ledger"`
	// RecordBytes is what one entry of the ledger takes on disk, its indexes included; 0 without one.
	RecordBytes float64 `json:"recordBytes"`
	// PerWrite is the time of one delivery, its commit included, on the average; Median is that of the delivery in the middle, which other work on
	// the machine touches least.
	PerWrite time.Duration `json:"perWriteNs"`
	Median   time.Duration `json:"medianWriteNs"`
}

// Measure lets the model's day happen to a store that has seen none before. Each delivery is a transaction of its own, as each comes in a
// request of its own.
func Measure(ctx context.Context, s store.Store, database string, m Model, scope Scope) (Measured, error) {
	out := Measured{Database: database, Scope: scope}
	before, err := sizes(ctx, s)
	if err != nil {
		return out, err
	}
	start := time.Now()
	var times []time.Duration
	for e := range m.Deliveries {
		began := time.Now()
		if _, fresh, err := s.Occur(ctx, occurrence(e, scope)); err != nil {
			return out, err
		} else if !fresh {
			out.Suppressed++
		}
		out.Deliveries++
		times = append(times, time.Since(began))
	}
	if slices.Sort(times); len(times) > 0 {
		out.Median = times[len(times)/2]
	}
	out.PerWrite = time.Since(start) / time.Duration(max(1, out.Deliveries))
	after, err := sizes(ctx, s)
	if err != nil {
		return out, err
	}
	out.Effects = int(after["events"].Rows - before["events"].Rows)
	out.Ledger = int(after["ledger"].Rows - before["ledger"].Rows)
	if out.Ledger > 0 {
		out.RecordBytes = float64(after["ledger"].Bytes-before["ledger"].Bytes) / float64(out.Ledger)
	}

	return out, nil
}

// occurrence is a delivery as the store hears of it. What is suppressed by a narrow key is no repeat of the same body, so that the body
// is the key's: a scope that is too narrow takes different events for one.
func occurrence(e Event, scope Scope) store.Occurrence {
	key := scope.Key(e)
	o := store.Occurrence{
		Key:  store.LedgerKey{Scope: e.Tracking, Effect: EffectShipment, Instance: strings.TrimPrefix(key, e.Tracking)},
		Body: []byte(key), Outcome: "done", Unkeyed: scope == "",
	}
	o.Effects = slices.Repeat([]string{string(e.State)}, e.effects())

	return o
}

func sizes(ctx context.Context, s store.Store) (map[string]store.TableSize, error) {
	all, err := s.Sizes(ctx)
	byTable := map[string]store.TableSize{}
	for _, t := range all {
		byTable[t.Table] = t
	}

	return byTable, err
}

// Variants are the days that are measured: without a ledger, and with each scope.
func Variants() []Scope { return append([]Scope{""}, Scopes()...) }

// MeasureAll lets both days happen with each variant to the databases of measure. The model's name tells day and variant apart.
func MeasureAll(measure func(Model, Scope) ([]Measured, error)) (map[string][]Measured, error) {
	all := map[string][]Measured{}
	for name, model := range map[string]Model{dayQuiet: Quiet(), dayWindow: Window()} {
		for _, scope := range Variants() {
			model.Name = name + "-" + string(scope)
			some, err := measure(model, scope)
			if err != nil {
				return nil, fmt.Errorf("measure %s: %w", model.Name, err)
			}
			all[name] = append(all[name], some...)
		}
	}

	return all, nil
}

// WriteMeasured shows measured days beside the model's.
func WriteMeasured(w io.Writer, days map[string][]Measured) error {
	var b strings.Builder
	for _, name := range []string{dayQuiet, dayWindow} {
		fmt.Fprintf(&b, "Measured, %s\n\n", name)
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "database\tdeliveries\tsuppressed\teffects\tledger\tbytes a record\tµs a write\tmedian\t   key")
		for _, m := range days[name] {
			key := string(m.Scope)
			if key == "" {
				key = "no ledger"
			}
			fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%.0f\t%.0f\t%.0f\t   %s\n", m.Database, m.Deliveries, m.Suppressed, m.Effects, m.Ledger,
				m.RecordBytes, micros(m.PerWrite), micros(m.Median), key)
		}
		_ = t.Flush() // into memory
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())

	return err
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// MeasuredTable is the table of docs/ledger.md.
func MeasuredTable(days map[string][]Measured) string {
	var b strings.Builder
	b.WriteString("| database | key | rows, quiet | bytes a record | µs a delivery, quiet (median) | rows, window | bytes a record | µs a delivery, window (median) |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|\n")
	for _, name := range databases(days[dayQuiet]) {
		for i, scope := range Variants() {
			quiet := column(days[dayQuiet], name, i)
			window := column(days[dayWindow], name, i)
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, label(scope), quiet, window)
		}
	}

	return b.String()
}

// column is rows, bytes and time of a variant's day.
func column(days []Measured, database string, variant int) string {
	one := func(of func(Measured) float64) float64 { return values(days, database, Variants(), of)[variant] }
	size := "–"
	if n := one(func(m Measured) float64 { return m.RecordBytes }); n > 0 {
		size = group(int(n + 0.5))
	}
	mean, median := one(func(m Measured) float64 { return micros(m.PerWrite) }), one(func(m Measured) float64 { return micros(m.Median) })

	return fmt.Sprintf("%s | %s | %s (%s)", group(int(one(func(m Measured) float64 { return float64(m.Ledger) }))), size, group(int(mean+0.5)), group(int(median+0.5)))
}
