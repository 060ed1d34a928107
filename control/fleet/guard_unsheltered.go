//go:build unsheltered && !unreread

package fleet

// Without the shelter, workers that are at work are ended. Never ship this.
const (
	rereads  = true
	shelters = false
)
