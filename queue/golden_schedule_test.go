package queue

import (
	"encoding/json"
	"errors"
	"time"
)

// templateA is the template of most scenarios.
var templateA = NewJob{Name: "n", Data: json.RawMessage(`{"a":1}`)}

func (s *scene) schedule(id string, r Repeat, template NewJob) Iteration {
	s.t.Helper()

	made, err := s.q.UpsertScheduler(s.t.Context(), id, r, template)
	s.must(err)

	return made
}

func scheduleScenes() map[string]func(*scene) {
	const every = 20 * time.Second

	yearly := Repeat{Pattern: "0 0 1 1 *", TZ: "UTC"}

	return map[string]func(*scene){
		"68": func(s *scene) {
			template := templateA
			template.Opts = JobOptions{Attempts: 3}
			s.schedule("s", Repeat{Every: every}, template)
		},
		"70": func(s *scene) { s.schedule("s", yearly, NewJob{Name: "n"}) },
		"71": func(s *scene) {
			s.schedule("s", Repeat{Every: every, StartDate: time.Now().Add(40 * time.Second)}, NewJob{})

			if removed, err := s.q.RemoveScheduler(s.t.Context(), "s"); err != nil || !removed {
				s.t.Errorf("removed %v, %v", removed, err)
			}
		},
		"72": func(s *scene) {
			made := s.schedule("s", Repeat{Every: every, StartDate: time.Now().Add(40 * time.Second)}, NewJob{})
			if err := s.q.Remove(s.t.Context(), made.JobID); !errors.Is(err, ErrScheduled) {
				s.t.Errorf("removed the pending iteration: %v", err)
			}

			_, err := s.q.Drain(s.t.Context(), true)
			s.must(err)

			if gone, err := s.q.Clean(s.t.Context(), 0, 0, StateDelayed); err != nil || len(gone) > 0 {
				s.t.Errorf("cleaned %v, %v", gone, err)
			}
		},
		"95": func(s *scene) {
			s.schedule("s", Repeat{Every: every, Limit: 1}, templateA)
			h := s.take("t")
			s.w.continueSchedule(h)
			s.expect(s.w.complete(h, 1), OutcomeCompleted)
		},
		"96": func(s *scene) {
			template := templateA
			template.Opts = JobOptions{Attempts: 2, Priority: 3}
			s.schedule("s", yearly, template)

			_, err := s.q.PromoteAll(s.t.Context())
			s.must(err)
			s.w.continueSchedule(s.take("t"))
		},
		"97": func(s *scene) {
			now := time.Now()
			s.schedule("s", Repeat{Every: 10 * time.Minute, Offset: 5 * time.Minute}, templateA)
			s.schedule("z", Repeat{Every: time.Minute, StartDate: now.Add(30 * time.Second), EndDate: now.Add(10 * time.Minute)}, NewJob{})
		},
	}
}

// markNearest lets the golden file's marker name the slot of every ten minutes where that comes before the other scheduler's start,
// which is half a minute away; when the file was written it came later.
func (s *scene) markNearest(want *observation) {
	s.t.Helper()

	first, err := s.r.ZRangeWithScores(s.t.Context(), "bull:q:repeat", 0, 0).Result()
	s.must(err)

	if len(first) == 1 && first[0].Member == "s" {
		want.Keys["bull:q:marker"] = goldenKey{Type: "zset", Value: json.RawMessage(`{"1": "<slot>"}`)}
	}
}
