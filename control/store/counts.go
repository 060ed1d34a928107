package store

import (
	"maps"
	"sync"
)

// LedgerCount tells what the ledger did with an effect in this process.
type LedgerCount struct {
	// Processed happened, Suppressed had happened before.
	Processed, Suppressed int64
}

// ledgerAnswer is what the ledger said to one question.
type ledgerAnswer struct {
	effect   Effect
	happened bool
}

// ledgerCounts adds up what was committed.
type ledgerCounts struct {
	mu  sync.Mutex
	all map[Effect]LedgerCount
}

func (c *ledgerCounts) add(asked []ledgerAnswer) {
	if len(asked) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[Effect]LedgerCount{}
	}
	for _, a := range asked {
		n := c.all[a.effect]
		if a.happened {
			n.Processed++
		} else {
			n.Suppressed++
		}
		c.all[a.effect] = n
	}
}

// Counts tells what the ledger did since the process began. What a transaction undid is not counted.
func (s *sqlStore) Counts() map[Effect]LedgerCount {
	s.counts.mu.Lock()
	defer s.counts.mu.Unlock()

	return maps.Clone(s.counts.all)
}
