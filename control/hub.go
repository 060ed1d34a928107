package control

import "sync"

// hub tells whoever watches an analysis that something may have changed. It is a hint: the row is the truth, and
// watchers look at it from time to time anyway, since other processes write too.
type hub struct {
	mu       sync.Mutex
	watchers map[string]map[chan struct{}]struct{}
}

func newHub() *hub { return &hub{watchers: map[string]map[chan struct{}]struct{}{}} }

// watch returns a channel that gets a token at each change, and what ends the watch.
func (h *hub) watch(id string) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers[id] == nil {
		h.watchers[id] = map[chan struct{}]struct{}{}
	}
	h.watchers[id][c] = struct{}{}

	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers[id], c)
		if len(h.watchers[id]) == 0 {
			delete(h.watchers, id)
		}
	}
}

// notify wakes the watchers of an analysis.
func (h *hub) notify(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.watchers[id] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
