package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/posefleet/posefleet/control/store"
)

const (
	// livePoll is how often the database is looked at for changes that another process made.
	livePoll = 2 * time.Second
	// liveBeat keeps proxies from closing a silent connection.
	liveBeat = 15 * time.Second
	// liveGap is the least time between two looks: in a busy fleet something changes all the time.
	liveGap = 250 * time.Millisecond
)

// live is GET /v1/analyses/{id}/events: the analysis as server-sent events, one now and one at each change. After the
// one that shows a decided analysis comes the event "end"; a client that is sent on with another status starts anew.
func (s *Server) live(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")

	return s.stream(w, r, "analysis", id, func(ctx context.Context) (any, bool, error) {
		v, err := s.fullView(ctx, id)

		return v, final(v.Status), err
	})
}

// liveList is GET /v1/live: a page of analyses as GET /v1/analyses gives it, now and at each change.
func (s *Server) liveList(w http.ResponseWriter, r *http.Request) error {
	request, err := pageRequest(r.URL.Query())
	if err != nil {
		return err
	}

	return s.stream(w, r, "analyses", anyAnalysis, func(ctx context.Context) (any, bool, error) {
		v, err := s.listed(ctx, request)

		return v, false, err
	})
}

// liveFleet is GET /v1/fleet/live: queue and fleet as they are, now and at each change. That time goes on is none, but once in a while.
func (s *Server) liveFleet(w http.ResponseWriter, r *http.Request) error {
	var shown fleetView

	return s.stream(w, r, "fleet", fleetTopic, func(ctx context.Context) (any, bool, error) {
		v, err := s.fleetNow(ctx)
		if v.Queue.sameDepth(shown.Queue) && v.Queue != nil && v.Queue.At.Sub(shown.Queue.At) < censusInterval {
			v.Queue, v.QueueAge = shown.Queue, shown.QueueAge
		}
		shown = v

		return v, false, err
	})
}

// final tells whether nothing will follow. A failed analysis may be retried, but that is a new visit.
func final(s store.Status) bool { return s.Terminal() }

// stream sends what look finds as server-sent events, one now and one at each change, and "end" when look says that nothing follows.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, event, topic string, look func(context.Context) (any, bool, error)) error {
	changed, stop := s.hub.watch(topic)
	defer stop()
	v, last, err := look(r.Context())
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	out := &eventStream{w: w, control: http.NewResponseController(w)}
	poll, beat := time.NewTicker(livePoll), time.NewTicker(liveBeat)
	defer poll.Stop()
	defer beat.Stop()
	for {
		if !out.show(event, v) || last {
			out.send("end", []byte("{}"))

			return nil
		}
		if !s.waitForChange(r, out, changed, poll.C, beat.C) {
			return nil
		}
		if v, last, err = look(r.Context()); err != nil {
			// The status has been sent; the client comes again.
			return nil
		}
	}
}

// waitForChange is false when the stream is over.
func (s *Server) waitForChange(r *http.Request, out *eventStream, changed <-chan struct{}, poll, beat <-chan time.Time) bool {
	gap := time.NewTimer(liveGap)
	defer gap.Stop()
	select {
	case <-r.Context().Done():
		return false
	case <-s.stopping:
		return false
	case <-gap.C:
	}
	for {
		select {
		case <-r.Context().Done():
			return false
		case <-s.stopping:
			return false
		case <-beat:
			out.comment()
		case <-changed:
			return true
		case <-poll:
			return true
		}
	}
}

// eventStream writes server-sent events; after a fault it is broken.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    []byte
	broken  bool
}

// show sends the document if it is another than the last one; false if nobody listens any more.
func (e *eventStream) show(event string, v any) bool {
	text, err := json.Marshal(v)
	if err != nil {
		return false
	}
	if !bytes.Equal(text, e.last) {
		e.last = text
		e.send(event, text)
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
