//go:build unguarded

package store

// Without the guard the last writer wins, whatever was delivered before. Never ship this.
const (
	completedCounts = `$2 >= 0`
	othersCount     = `$2 >= 0`
	creditOpen      = `state <> ''`
	stageAhead      = `$3 >= 0`
	unclaimed       = `$1 >= 0`
	asksQueue       = false
)
