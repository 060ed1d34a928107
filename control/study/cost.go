package study

import "time"

// Load is what the cost of a ledger is reckoned for.
type Load struct {
	// WritesPerDay are keyed writes.
	WritesPerDay int
	// Memory is what the store has, in bytes.
	Memory float64
	// PeakWrites and PeakReads are rows of the busiest hour without a ledger.
	PeakWrites, PeakReads int
}

// Typical is the load of the study: 3.2 million keyed writes a day on a small database server.
func Typical() Load {
	return Load{WritesPerDay: 3_200_000, Memory: 976e6, PeakWrites: 350_000, PeakReads: 150_000}
}

// Space is what keys cost that are kept for a while.
type Space struct {
	Window time.Duration `json:"windowNs"`
	// Record is the size of one key with what belongs to it, in bytes.
	Record int `json:"recordBytes"`
	// Bytes are held at any time, Share is their part of the memory, 0..1.
	Bytes float64 `json:"bytes"`
	Share float64 `json:"share"`
}

// Space reckons the steady state: as many keys as come in one window.
func (l Load) Space(window time.Duration, record int) Space {
	bytes := float64(l.WritesPerDay) * window.Hours() / 24 * float64(record)
	return Space{Window: window, Record: record, Bytes: bytes, Share: bytes / l.Memory}
}

// Spaces are the rows of the study's table.
func (l Load) Spaces() []Space {
	return []Space{
		l.Space(24*time.Hour, recordBytes), l.Space(24*time.Hour, 2*recordBytes),
		l.Space(72*time.Hour, recordBytes), l.Space(time.Hour, recordBytes),
	}
}

// recordBytes is a key of 32 bytes with a digest's head, a time and the store's own overhead.
const recordBytes = 72

// Peak is the traffic of the busiest hour, in rows per second.
type Peak struct {
	Writes     float64 `json:"writes"`
	Reads      float64 `json:"reads"`
	WriteRatio float64 `json:"writesPerRead"`
}

// Peaks are the busiest hour without and with a ledger: it adds to each write a row and, before it, a read.
func (l Load) Peaks() (without, with Peak) {
	writes, reads := float64(l.PeakWrites)/3600, float64(l.PeakReads)/3600
	return peak(writes, reads), peak(2*writes, reads+writes)
}

func peak(writes, reads float64) Peak {
	return Peak{Writes: writes, Reads: reads, WriteRatio: writes / reads}
}

// Month is what a month with some failure windows does without a ledger.
type Month struct {
	Windows      int `json:"windows"`
	Effects      int `json:"duplicateEffects"`
	InvoiceLines int `json:"duplicateInvoiceLines"`
}

// Months reckons from a day in the failure window.
func Months(window Day, windows ...int) []Month {
	right := window.Outcomes[len(window.Outcomes)-1]
	var out []Month
	for _, n := range windows {
		out = append(out, Month{Windows: n, Effects: n * right.Prevented, InvoiceLines: n * window.InvoiceLines})
	}
	return out
}
