package worker

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"
)

const (
	replayFor  = 10 * time.Minute // how long a webhook-id is remembered
	replayKept = 10_000           // and how many at most
)

// replays remembers the message ids that came to the door, so that a repeated request is answered as it was, and an
// id that comes back with another body or for another path is refused: the path is not signed, so a captured
// message must not open a second door.
type replays struct {
	mu    sync.Mutex
	byID  map[string]*list.Element
	order *list.List // of *replay, oldest first
}

// replay is one remembered message. Its answer is there once ready is closed, unless it was dropped.
type replay struct {
	id     string
	digest [sha256.Size]byte
	at     time.Time
	ready  chan struct{}
	answer *answer // nil: nothing was decided, a repetition is judged anew
}

func newReplays() *replays { return &replays{byID: map[string]*list.Element{}, order: list.New()} }

func digest(method, path string, body []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write([]byte(method + " " + path + "\n"))
	h.Write(body)
	return [sha256.Size]byte(h.Sum(nil))
}

// claim registers a message. first says that it is new and that the caller has to settle it; same says whether a
// known id came with the same content.
func (rs *replays) claim(id string, sum [sha256.Size]byte) (r *replay, first, same bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.expire(time.Now())
	if e, ok := rs.byID[id]; ok {
		known := e.Value.(*replay) //nolint:forcetypeassert // only claim puts into the list
		return known, false, known.digest == sum
	}
	r = &replay{id: id, digest: sum, at: time.Now(), ready: make(chan struct{})}
	rs.byID[id] = rs.order.PushBack(r)
	return r, true, true
}

// settle publishes the answer. With keep false the id stays bound to its content, and a repetition is judged anew:
// "busy" and "try later" are no decisions.
func (rs *replays) settle(r *replay, a answer, keep bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if keep {
		r.answer = &a
	}
	close(r.ready)
}

// reopen lets the caller judge an undecided message again; false if somebody else does so or it is decided.
func (rs *replays) reopen(r *replay) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	select {
	case <-r.ready:
	default:
		return false
	}
	if r.answer != nil {
		return false
	}
	r.ready = make(chan struct{})
	return true
}

// state returns the answer, or the channel to wait on for it.
func (rs *replays) state(r *replay) (*answer, <-chan struct{}) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return r.answer, r.ready
}

// expire forgets what is old or too much; the caller holds mu.
func (rs *replays) expire(now time.Time) {
	for e := rs.order.Front(); e != nil; e = rs.order.Front() {
		r := e.Value.(*replay) //nolint:forcetypeassert // as above
		if now.Sub(r.at) < replayFor && rs.order.Len() < replayKept {
			return
		}
		rs.order.Remove(e)
		delete(rs.byID, r.id)
	}
}
