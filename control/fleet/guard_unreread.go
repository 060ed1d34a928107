//go:build unreread

package fleet

// Without the second reading, work that comes during a scale-in waits for the next look. Never ship this.
const (
	rereads  = false
	shelters = true
)
