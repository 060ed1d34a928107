package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/posefleet/posefleet/control/store"
)

const (
	// livePoll is how often the row is looked at for changes that another process made.
	livePoll = 2 * time.Second
	// liveBeat keeps proxies from closing a silent connection.
	liveBeat = 15 * time.Second
)

// live is GET /v1/analyses/{id}/events: the analysis as server-sent events, one now and one at each change. After the
// one that shows a decided analysis comes the event "end"; a client that is sent on with another status starts anew.
func (s *Server) live(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	changed, stop := s.hub.watch(id)
	defer stop()
	v, err := s.fullView(r.Context(), id)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	stream := &eventStream{w: w, control: http.NewResponseController(w)}
	poll, beat := time.NewTicker(livePoll), time.NewTicker(liveBeat)
	defer poll.Stop()
	defer beat.Stop()
	for {
		if !stream.show(v) || final(v.Status) {
			stream.send("end", []byte("{}"))

			return nil
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-s.stopping:
			return nil
		case <-beat.C:
			stream.comment()
		case <-changed:
		case <-poll.C:
		}
		if v, err = s.fullView(r.Context(), id); err != nil {
			// The status has been sent; the client comes again.
			return nil
		}
	}
}

// final tells whether nothing will follow. A failed analysis may be retried, but that is a new visit.
func final(s store.Status) bool { return s.Terminal() }

// eventStream writes server-sent events; after a fault it is broken.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    []byte
	broken  bool
}

// show sends the analysis if it is another than the last one; false if nobody listens any more.
func (e *eventStream) show(v analysisView) bool {
	text, err := json.Marshal(v)
	if err != nil {
		return false
	}
	if !bytes.Equal(text, e.last) {
		e.last = text
		e.send("analysis", text)
	}

	return !e.broken
}

func (e *eventStream) send(event string, data []byte) {
	e.write(fmt.Sprintf("event: %s\ndata: %s\n\n", event, data))
}

func (e *eventStream) comment() { e.write(": still here\n\n") }

func (e *eventStream) write(text string) {
	if e.broken {
		return
	}
	_, err := e.w.Write([]byte(text))
	if err == nil {
		err = e.control.Flush()
	}
	e.broken = err != nil
}
