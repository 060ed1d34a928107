package queue

import (
	"encoding/json"
	goflag "flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var benchDir = goflag.String("queue.bench", "", "measure in full, beside Node, and write benchmarks.json, .svg and .md into this folder")

var benchJobs = goflag.Int("queue.bench.jobs", 100_000, "how many jobs are added and drained with -queue.bench")

var benchOnly = goflag.String("queue.bench.only", "", "measure only these parts, comma-separated, and write nothing: throughput, latency, claims, locks, idle")

// benchSizes are how much is measured.
type benchSizes struct {
	rounds  int
	jobs    int // drained and added
	starts  int // of an idle worker
	pause   time.Duration
	waiting []int // jobs before which claims are timed
	claims  int
	locks   int
	renew   time.Duration // LockRenewTime
	ticks   int           // renewals
	idle    time.Duration
}

var (
	benchSmoke = benchSizes{
		rounds: 1, jobs: 300, starts: 3, pause: 5 * time.Millisecond, waiting: []int{100, 300}, claims: 30, locks: 50,
		renew: 200 * time.Millisecond, ticks: 2, idle: 300 * time.Millisecond,
	}
	benchFull = benchSizes{
		rounds: 5, jobs: 100_000, starts: 300, pause: 15 * time.Millisecond, waiting: []int{1_000, 100_000, 1_000_000}, claims: 900,
		locks: 1_000, renew: time.Second, ticks: 120, idle: time.Minute,
	}
)

// TestBench is the benchmark program. Without -queue.bench it only shows that the program works: nothing is judged by the time that it
// took. With it, it measures Go and Node in turns against a redis-server of the same kind each, and writes docs/benchmarks.
func TestBench(t *testing.T) {
	sizes := benchSmoke
	full := *benchDir != "" || *benchOnly != ""
	if full {
		sizes = benchFull
		sizes.jobs = *benchJobs
	} else {
		t.Parallel()
	}

	b := newBench(t, sizes)
	for _, part := range b.parts() {
		if *benchOnly == "" || slices.Contains(strings.Split(*benchOnly, ","), part.name) {
			b.report.Rows = append(b.report.Rows, part.measure()...)
		}
	}

	for _, r := range b.report.Rows {
		t.Logf("%-60s bar %-22s %s", r.Name, r.Bar, r.measured())

		if len(r.Go) == 0 {
			t.Errorf("%s: nothing measured", r.Name)
		}
	}

	if *benchDir == "" || *benchOnly != "" {
		return
	}

	text, err := json.MarshalIndent(b.report, "", "  ")
	b.must(err)
	b.must(os.WriteFile(filepath.Join(*benchDir, "benchmarks.json"), append(text, '\n'), 0o644))
	b.must(os.WriteFile(filepath.Join(*benchDir, "benchmarks.svg"), b.report.plot(), 0o644))
	b.must(replaceTable(filepath.Join(*benchDir, "benchmarks.md"), b.report.table()))
}

// benchPart is a part of the benchmark program.
type benchPart struct {
	name    string
	measure func() []benchRow
}

func (b *bench) parts() []benchPart {
	return []benchPart{{"throughput", b.throughput}, {"latency", b.latency}, {"claims", b.claimCost}, {"locks", b.renewals}, {"idle", b.idleness}}
}
