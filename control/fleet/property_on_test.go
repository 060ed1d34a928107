//go:build !unreread && !unsheltered

package fleet

import (
	"strconv"
	"testing"
)

// Demand gets its capacity within a minute, no demand has none in the end, work is never scaled in, and of two processes one decides,
// whatever fails, is late, stands still or forgets. property_off_test.go shows that each of the two guards is needed.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	for shard := range shards {
		t.Run(strconv.Itoa(shard), func(t *testing.T) {
			t.Parallel()
			if seed, broken := brokenStory(t, shard, interleavings/shards); len(broken) > 0 {
				t.Fatalf("interleaving %d: %q", seed, broken)
			}
		})
	}
}
