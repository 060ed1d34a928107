package worker

import (
	"slices"
	"testing"
)

func TestShare(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		fit          Fit
		slots        int
		heap         int64
		threads, omp string
	}{
		{"no limits", Fit{Procs: 8}, 2, 0, "GOMAXPROCS=4", "OMP_NUM_THREADS=4"},
		{"two cores, one slot", Fit{CPU: 2, Memory: 4 << 30, Procs: 2}, 1, 2921752166, "GOMAXPROCS=2", "OMP_NUM_THREADS=2"},
		{"more slots than cores", Fit{CPU: 1, Memory: 1 << 30, Procs: 1}, 3, leastHeap, "GOMAXPROCS=1", "OMP_NUM_THREADS=1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Slots: tt.slots}
			// GOMEMLIMIT is given, so that the test leaves this process as it is.
			tt.fit.Share(&cfg, map[string]string{"GOMEMLIMIT": "off"})
			if !slices.Equal(cfg.ExtractorEnv, []string{tt.threads, tt.omp}) {
				t.Errorf("extractor environment %v", cfg.ExtractorEnv)
			}
			if got := tt.fit.heap(tt.slots); got != tt.heap {
				t.Errorf("heap %d, want %d", got, tt.heap)
			}
		})
	}
}
