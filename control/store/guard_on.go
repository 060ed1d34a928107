//go:build !unguarded

package store

// The compare-and-set of step 7: the part of the WHERE clause that lets a result count. The build tag unguarded takes
// it out, for the test that shows what it is for.
const (
	// completedCounts: not over a terminal row, whichever epoch made the result.
	completedCounts = `status IN ('queued', 'processing') AND $2 >= 0`
	// othersCount: not over a terminal row, and only from the current epoch.
	othersCount = `status IN ('queued', 'processing') AND epoch = $2`
	// creditOpen: a credit is settled or refunded, never both.
	creditOpen = `state = 'reserved'`
	// stageAhead: a stage of a run has its effects once.
	stageAhead = `stage < $3`
	// unclaimed: an entry of the outbox is one control plane's at a time.
	unclaimed = `o.claimed_until <= $1`
	// asksQueue: a later start of a job that failed is a person's retry only if the queue says so.
	asksQueue = true
)
