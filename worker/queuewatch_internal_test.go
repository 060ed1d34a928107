package worker

import (
	"testing"
	"time"

	"github.com/posefleet/posefleet/queue"
)

func TestFetchLoopAlive(t *testing.T) {
	t.Parallel()
	now := time.Now()
	fresh, old := now.Add(-5*time.Second), now.Add(-time.Hour)
	tests := []struct {
		name              string
		status            queue.WorkerStatus
		full              bool
		renewed, capacity time.Time
		alive             bool
	}{
		{"never fetched", queue.WorkerStatus{}, false, time.Time{}, time.Time{}, false},
		{"idle", queue.WorkerStatus{LastFetch: fresh, Blocked: true}, false, time.Time{}, time.Time{}, true},
		{"stuck in the blocking pop", queue.WorkerStatus{LastFetch: old, Blocked: true}, false, time.Time{}, time.Time{}, false},
		{"stuck while locks are renewed elsewhere", queue.WorkerStatus{LastFetch: old, Blocked: true, Active: 1}, false, fresh, time.Time{}, false},
		{"full and renewing", queue.WorkerStatus{LastFetch: old, AwaitingSlot: true, Active: 1}, true, fresh, time.Time{}, true},
		{"full and cut off", queue.WorkerStatus{LastFetch: old, AwaitingSlot: true, Active: 1}, true, old, time.Time{}, false},
		{"full by HTTP alone", queue.WorkerStatus{LastFetch: old, AwaitingSlot: true}, true, time.Time{}, time.Time{}, true},
		{"full by HTTP alone, never fetched", queue.WorkerStatus{AwaitingSlot: true}, true, time.Time{}, time.Time{}, false},
		{"between two turns, silent", queue.WorkerStatus{LastFetch: old, AwaitingSlot: true}, false, time.Time{}, time.Time{}, false},
		{"a slot has just freed", queue.WorkerStatus{LastFetch: old}, false, old, fresh, true},
		{"a slot freed long ago", queue.WorkerStatus{LastFetch: old}, false, old, old, false},
	}
	for _, tt := range tests {
		w := &queueWatch{renewed: tt.renewed, capacity: tt.capacity}
		if err := w.alive(tt.status, tt.full, now); (err == nil) != tt.alive {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
