package worker

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/posefleet/posefleet/worker/internal/machine"
)

const (
	// extractionBytes is what one extraction takes beside the worker: model, decoder, frames.
	extractionBytes = 900 << 20
	// leastHeap is below what the worker's own memory is never pressed.
	leastHeap = 256 << 20
	// usable is the part of the memory limit that is planned with.
	usable = 0.9
)

// Fit is how the worker shares the machine.
type Fit struct {
	// CPU and Memory are the limits of the container, in cores and bytes; 0 where none is known.
	CPU    float64
	Memory int64
	// Procs is the number of threads that run Go code.
	Procs int
}

// FitMachine sets how many threads run Go code from the limits of the container, where GOMAXPROCS does not say so. It belongs before
// LoadConfig, whose default of slots depends on it.
func FitMachine(ctx context.Context, environ map[string]string) Fit {
	limits := machine.Read(ctx, environ["ECS_CONTAINER_METADATA_URI_V4"])
	if procs := int(math.Ceil(limits.CPU)); environ["GOMAXPROCS"] == "" && procs > 0 && procs < runtime.GOMAXPROCS(0) {
		runtime.GOMAXPROCS(procs)
	}
	return Fit{CPU: limits.CPU, Memory: limits.Memory, Procs: runtime.GOMAXPROCS(0)}
}

// Share divides what there is between the worker and its extractors: a soft limit for the worker's memory, where GOMEMLIMIT does not say
// so, and threads for each extractor, whose libraries would otherwise count the cores of the host.
func (f Fit) Share(cfg *Config, environ map[string]string) {
	threads := f.threads(cfg.Slots)
	for _, name := range []string{"GOMAXPROCS", "OMP_NUM_THREADS"} {
		if !has(cfg.ExtractorEnv, name) {
			cfg.ExtractorEnv = append(cfg.ExtractorEnv, fmt.Sprintf("%s=%d", name, threads))
		}
	}
	if heap := f.heap(cfg.Slots); environ["GOMEMLIMIT"] == "" && heap > 0 {
		debug.SetMemoryLimit(heap)
	}
}

// Log says what Share has made of the machine.
func (f Fit) Log(cfg *Config, log *slog.Logger) {
	log.Info("machine", slog.Float64("cpu_limit", f.CPU), slog.Int64("memory_limit", f.Memory), slog.Int("threads", f.Procs),
		slog.Int("threads_per_extractor", f.threads(cfg.Slots)), slog.Int64("heap_limit", f.heap(cfg.Slots)))
	if need := int64(cfg.Slots)*extractionBytes + leastHeap; f.Memory > 0 && need > f.Memory {
		log.Warn("the memory limit is small for this many slots: extractors may be killed by the kernel",
			slog.Int("slots", cfg.Slots), slog.Int64("memory_limit", f.Memory), slog.Int64("needed", need))
	}
}

// threads is how many an extractor has.
func (f Fit) threads(slots int) int { return max(1, f.Procs/max(slots, 1)) }

// heap is the worker's part of the memory; 0 where there is no limit.
func (f Fit) heap(slots int) int64 {
	if f.Memory <= 0 {
		return 0
	}
	return max(int64(usable*float64(f.Memory))-int64(slots)*extractionBytes, leastHeap)
}

func has(environ []string, name string) bool {
	for _, line := range environ {
		if strings.HasPrefix(line, name+"=") {
			return true
		}
	}
	return false
}
