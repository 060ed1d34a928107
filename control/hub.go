package control

import "sync"

// Topics beside the ids of analyses, which have no colon.
const (
	// anyAnalysis hears of every analysis.
	anyAnalysis = ":any"
	// fleetTopic hears of queue and fleet.
	fleetTopic = ":fleet"
)

// hub tells whoever watches an analysis that something may have changed. It is a hint: the row is the truth, and
// watchers look at it from time to time anyway, since other processes write too.
type hub struct {
	mu       sync.Mutex
	watchers map[string]map[chan struct{}]struct{}
}

func newHub() *hub { return &hub{watchers: map[string]map[chan struct{}]struct{}{}} }

// watch returns a channel that gets a token at each change of an analysis or a topic, and what ends the watch.
func (h *hub) watch(topic string) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers[topic] == nil {
		h.watchers[topic] = map[chan struct{}]struct{}{}
	}
	h.watchers[topic][c] = struct{}{}

	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers[topic], c)
		if len(h.watchers[topic]) == 0 {
			delete(h.watchers, topic)
		}
	}
}

// notify wakes the watchers of an analysis, and those of all; or those of a topic.
func (h *hub) notify(topic string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wake(topic)
	if topic != fleetTopic {
		h.wake(anyAnalysis)
	}
}

func (h *hub) wake(topic string) {
	for c := range h.watchers[topic] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
