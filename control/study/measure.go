package study

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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
	Record      Record  `json:"record"`
	// PerWrite is the time of one delivery, its commit included, on the average; Median is that of the delivery in the middle, which other work on
	// the machine touches least.
	PerWrite time.Duration `json:"perWriteNs"`
	Median   time.Duration `json:"medianWriteNs"`
}

// Record is what the bytes of one entry consist of, on the average.
type Record struct {
	// Key is the length of the key's text. Either database keeps it twice: SQLite in the row and in the index of the expiry, Postgres in the
	// row and in the index of the key.
	Key float64 `json:"keyBytes"`
	// Row is the entry's part of the table's own pages, KeyIndex of the index of the key (SQLite: 0, the table is that index), Expiry of the
	// index by which entries are removed, Rest of what the database keeps beside them. Pages count whole, with what is free in them.
	Row      float64 `json:"rowBytes"`
	KeyIndex float64 `json:"keyIndexBytes"`
	Expiry   float64 `json:"expiryIndexBytes"`
	Rest     float64 `json:"restBytes"`
}

// Meter counts and times the deliveries to one store, from any number of goroutines.
type Meter struct {
	store  store.Store
	before map[string]store.TableSize

	mu    sync.Mutex
	out   Measured
	times []time.Duration
	keys  map[string]bool
}

// NewMeter looks at a store that has seen none of the deliveries.
func NewMeter(ctx context.Context, s store.Store, database string, scope Scope) (*Meter, error) {
	before, err := sizes(ctx, s)

	return &Meter{store: s, before: before, out: Measured{Database: database, Scope: scope}, keys: map[string]bool{}}, err
}

// Deliver writes one delivery: a transaction of its own, as each comes in a request of its own.
func (m *Meter) Deliver(ctx context.Context, e Event) error {
	o := occurrence(e, m.out.Scope)
	began := time.Now()
	_, fresh, err := m.store.Occur(ctx, o)
	took := time.Since(began)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.times = append(m.times, took)
	m.keys[o.Key.String()] = true
	m.out.Deliveries++
	if !fresh {
		m.out.Suppressed++
	}

	return nil
}

// Measured counts in the database what has become of the deliveries.
func (m *Meter) Measured(ctx context.Context) (Measured, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.out
	if n := len(m.times); n > 0 {
		var sum time.Duration
		for _, t := range m.times {
			sum += t
		}
		sorted := slices.Sorted(slices.Values(m.times))
		out.PerWrite, out.Median = sum/time.Duration(n), sorted[n/2]
	}
	after, err := sizes(ctx, m.store)
	if err != nil {
		return out, err
	}
	out.Effects = int(after["events"].Rows - m.before["events"].Rows)
	out.Ledger = int(after["ledger"].Rows - m.before["ledger"].Rows)
	if out.Ledger > 0 {
		out.Record = m.record(after["ledger"], float64(out.Ledger))
		out.RecordBytes = float64(after["ledger"].Bytes-m.before["ledger"].Bytes) / float64(out.Ledger)
	}

	return out, nil
}

// record divides what the ledger has grown by among its entries.
func (m *Meter) record(after store.TableSize, entries float64) Record {
	before := m.before["ledger"]
	rest := after.Bytes - before.Bytes
	part := func(name string) float64 {
		grown := after.Parts[name] - before.Parts[name]
		rest -= grown

		return float64(grown) / entries
	}
	r := Record{Row: part("ledger"), KeyIndex: part("ledger_pkey"), Expiry: part("ledger_expiry")}
	r.Rest = float64(rest) / entries
	length := 0
	for key := range m.keys {
		length += len(key)
	}
	r.Key = float64(length) / float64(len(m.keys))

	return r
}

// Measure lets the model's day happen to a store that has seen none before.
func Measure(ctx context.Context, s store.Store, database string, m Model, scope Scope) (Measured, error) {
	meter, err := NewMeter(ctx, s, database, scope)
	if err != nil {
		return Measured{}, err
	}
	for e := range m.Deliveries {
		if err := meter.Deliver(ctx, e); err != nil {
			return Measured{}, err
		}
	}

	return meter.Measured(ctx)
}

// occurrence is a delivery as the store hears of it. What is suppressed by a narrow key is no repeat of the same body, so that the body
// is the key's: a scope that is too narrow takes different events for one.
func occurrence(e Event, scope Scope) store.Occurrence {
	key := scope.Key(e)
	o := store.Occurrence{
		Key:  store.LedgerKey{Scope: e.Tracking, Effect: EffectShipment, Instance: strings.TrimPrefix(strings.TrimPrefix(key, e.Tracking), "/")},
		Body: []byte(key), Outcome: "done", Unkeyed: scope == "",
	}
	o.Effects = slices.Repeat([]string{string(e.State)}, e.Effects())

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

// MeasureAll lets both days happen with each variant, each time to an empty database, so that neither other keys nor the pages that other
// days have filled count.
func MeasureAll(ctx context.Context, in []Database) (map[string][]Measured, error) {
	all := map[string][]Measured{}
	for _, name := range Days() {
		for _, scope := range Variants() {
			for _, d := range in {
				one, err := measureIn(ctx, d, ModelOf(name), scope)
				if err != nil {
					return nil, fmt.Errorf("measure %s, %s on %s: %w", name, label(scope), d.Name, err)
				}
				all[name] = append(all[name], one)
			}
		}
	}

	return all, nil
}

func measureIn(ctx context.Context, d Database, m Model, scope Scope) (out Measured, err error) {
	s, done, err := d.Empty(ctx)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, done()) }()

	return Measure(ctx, s, d.Name, m, scope)
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
