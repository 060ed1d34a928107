package control

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/posefleet/posefleet/control/store"
)

const (
	// historyDefault and historyMost bound how far back a history is shown.
	historyDefault = 6 * time.Hour
	historyMost    = 7 * 24 * time.Hour
	// historyPoints bounds how much of it is read: more than a week of censuses.
	historyPoints = 21_000
	// historyShown bounds how many points a history has; between them the largest counts.
	historyShown = 360
)

// queueView is the queue at one moment.
type queueView struct {
	At            time.Time `json:"at"`
	Waiting       int64     `json:"waiting"`
	Active        int64     `json:"active"`
	Delayed       int64     `json:"delayed"`
	OldestSeconds int64     `json:"oldestSeconds" doc:"How long the oldest job has waited."`
	Paused        bool      `json:"paused"`
	Workers       *int64    `json:"workers" doc:"Workers connected to the queue; null where Redis does not tell."`
}

// sizeView is the fleet at one moment.
type sizeView struct {
	At      time.Time `json:"at"`
	Desired int       `json:"desired"`
	Running int       `json:"running"`
	Ready   int       `json:"ready"`
	Waiting int       `json:"waiting"`
	Working int       `json:"working"`
	Reason  string    `json:"reason,omitempty" doc:"Why the size was decided anew, if it was."`
}

// fleetView is queue and fleet as they are.
type fleetView struct {
	Open      map[store.Status]int64 `json:"open" doc:"Analyses that have not been decided, by state."`
	Queue     *queueView             `json:"queue,omitempty" doc:"The queue, at most two seconds ago; missing while Redis is away."`
	QueueAge  *float64               `json:"queueAgeSeconds,omitempty" doc:"How old the queue's numbers are."`
	Desired   int                    `json:"desired"`
	Running   int                    `json:"running"`
	Ready     int                    `json:"ready"`
	Reason    string                 `json:"reason,omitempty" doc:"Why so many are desired."`
	ChangedAt *time.Time             `json:"changedAt,omitempty"`
	SeenAt    *time.Time             `json:"seenAt,omitempty" doc:"When running and ready were counted; missing where nobody scales a fleet."`
	WakeUntil *time.Time             `json:"wakeUntil,omitempty"`
}

// historyView is how queue and fleet have been.
type historyView struct {
	Queue []queueView `json:"queue"`
	Fleet []sizeView  `json:"fleet"`
}

// fleet is GET /v1/fleet.
func (s *Server) fleet(w http.ResponseWriter, r *http.Request) error {
	v, err := s.fleetNow(r.Context())
	if err != nil {
		return err
	}
	same := v
	same.QueueAge = nil // the same numbers are the same answer, whatever their age

	return answerTaggedAs(w, r, same, v)
}

func (s *Server) fleetNow(ctx context.Context) (fleetView, error) {
	v := fleetView{}
	var err error
	if v.Open, err = s.store.Open(ctx); err != nil {
		return v, err
	}
	if c, age := s.census.current(ctx); c != nil {
		q := viewCensus(*c)
		seconds := math.Round(age.Seconds()*1000) / 1000
		v.Queue, v.QueueAge = &q, &seconds
	}
	f, err := s.store.Fleet(ctx)
	v.Desired, v.Running, v.Ready, v.Reason = f.Desired, f.Running, f.Ready, f.Reason
	v.ChangedAt, v.SeenAt, v.WakeUntil = optionalTime(f.ChangedAt), optionalTime(f.SeenAt), optionalTime(f.WakeUntil)

	return v, err
}

// history is GET /v1/fleet/history?since=6h.
func (s *Server) history(w http.ResponseWriter, r *http.Request) error {
	since, err := historySpan(r.URL.Query().Get("since"))
	if err != nil {
		return err
	}
	v, err := s.historyOf(r.Context(), since)
	if err != nil {
		return err
	}

	return answerTagged(w, r, v)
}

// historySpan reads how far back to look.
func historySpan(text string) (time.Duration, error) {
	if text == "" {
		return historyDefault, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Minute || d > historyMost {
		return 0, badRequest("since is a duration of 1m to 168h, as 6h")
	}

	return d, nil
}

func (s *Server) historyOf(ctx context.Context, span time.Duration) (historyView, error) {
	v := historyView{Queue: []queueView{}, Fleet: []sizeView{}}
	now := s.cfg.Now()
	censuses, err := s.store.Censuses(ctx, now.Add(-span), historyPoints)
	if err != nil {
		return v, err
	}
	step := span / historyShown
	for _, c := range censuses {
		if n := len(v.Queue); n > 0 && c.At.Truncate(step).Equal(v.Queue[n-1].At.Truncate(step)) {
			v.Queue[n-1] = larger(v.Queue[n-1], viewCensus(c))
		} else {
			v.Queue = append(v.Queue, viewCensus(c))
		}
	}
	points, err := s.store.FleetHistory(ctx, now.Add(-span), historyPoints)
	for _, p := range points {
		v.Fleet = append(v.Fleet, sizeView{
			At: p.At, Desired: p.Desired, Running: p.Running, Ready: p.Ready, Waiting: p.Waiting, Working: p.Working, Reason: p.Reason,
		})
	}

	return v, err
}

func viewCensus(c store.Census) queueView {
	v := queueView{At: c.At, Waiting: c.Waiting, Active: c.Active, Delayed: c.Delayed, OldestSeconds: c.OldestSeconds, Paused: c.Paused}
	if c.Workers >= 0 {
		v.Workers = &c.Workers
	}

	return v
}

// sameDepth tells whether only the time has gone on.
func (q *queueView) sameDepth(o *queueView) bool {
	if q == nil || o == nil {
		return q == o
	}
	a, b := *q, *o
	b.At, b.OldestSeconds = a.At, a.OldestSeconds
	workers := func(v queueView) int64 {
		if v.Workers == nil {
			return -1
		}

		return *v.Workers
	}
	same := workers(a) == workers(b)
	a.Workers, b.Workers = nil, nil

	return same && a == b
}

// larger is both at the time of the first, each number the larger one: a peak must not get lost between two points.
func larger(a, b queueView) queueView {
	a.Waiting, a.Active, a.Delayed = max(a.Waiting, b.Waiting), max(a.Active, b.Active), max(a.Delayed, b.Delayed)
	a.OldestSeconds, a.Paused = max(a.OldestSeconds, b.OldestSeconds), a.Paused || b.Paused
	if a.Workers == nil || b.Workers != nil && *b.Workers > *a.Workers {
		a.Workers = b.Workers
	}

	return a
}
