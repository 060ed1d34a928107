package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
)

// scene is what a golden scenario works with: queue "q" with its worker's steps, and others by name.
type scene struct {
	*kit
	q *Queue
	w *Worker
}

func (s *scene) plain(n int) {
	for range n {
		s.add(s.q, "a", nil, JobOptions{})
	}
}

func (s *scene) take(token string) *hold {
	s.t.Helper()

	h := s.kit.take(s.w, token)
	if h == nil {
		s.t.Fatal("nothing to take")
	}

	return h
}

func (s *scene) none() {
	s.t.Helper()

	if h := s.kit.take(s.w, "none"); h != nil {
		s.t.Fatalf("took job %s, want none", h.job.ID)
	}
}

// with gives the worker other options for the rest of the scene.
func (s *scene) with(change func(*WorkerOptions)) { s.w = s.worker("q", change) }

func (s *scene) completeNext(token string, result any) {
	s.t.Helper()
	s.expect(s.w.complete(s.take(token), result), OutcomeCompleted)
}

func (s *scene) failNext(token string, err error, want Outcome) {
	s.t.Helper()
	s.expect(s.w.fail(s.take(token), err), want)
}

func (s *scene) stalledCheck(interval time.Duration) {
	s.t.Helper()

	w := s.worker("q", func(o *WorkerOptions) { o.StalledInterval = interval; o.MaxStalledCount = s.w.opts.MaxStalledCount })
	wait.For(s.t, testTimeout, func() bool { return s.r.Exists(s.t.Context(), "bull:q:stalled-check").Val() == 0 })

	_, err := w.checkStalledOnce(s.t.Context())
	s.must(err)
}

// work runs a real worker until nothing is left to do.
func (s *scene) work(name string, o WorkerOptions, h Handler) {
	s.t.Helper()

	_, stop := s.run(o, h)
	q := s.queue(name)

	wait.For(s.t, testTimeout, func() bool {
		c, err := q.Counts(s.t.Context())
		return err == nil && c.Waiting+c.Active+c.Prioritized == 0 && s.r.Exists(s.t.Context(), q.keys.of(keyMarker)).Val() == 0
	})
	stop()
}

var errBoom = errors.New("boom")

func seconds20(o *WorkerOptions) { o.Limiter = &Limiter{Max: 1, Duration: 20 * time.Second} }

// scenarios are the golden files that this package replays. A file that is not named here fails the test unless it is in notYet or never.
func scenarios() map[string]func(*scene) {
	all := producerScenes()
	for _, more := range []map[string]func(*scene){
		takeScenes(), limitScenes(), dedupScenes(), finishScenes(), retryScenes(), familyScenes(), scheduleScenes(), steerScenes(),
		moreSteerScenes(),
	} {
		maps.Copy(all, more)
	}

	return all
}

// notYet are the files of features that this package does not have yet.
var notYet []string

// never are the files about what other libraries do to each other, and about texts of messages (10, see TestBadOptionsAreRefused).
// 99 is a flow that Node leaves half done, see TestRefusedFlowLeavesNothing; in 74 Node loses
// sight of an iteration, see TestUpsertWhilePaused; in mix-09 it loses data, see TestLegacyRepeatableKeepsItsData.
var never = []string{"10", "mix-01", "mix-03", "mix-06", "mix-07", "mix-08", "mix-11", "mix-12", "113", "99", "74", "mix-09"}

func TestGolden(t *testing.T) {
	t.Parallel()

	files := goldenFiles(t)
	all := scenarios()

	for _, file := range files {
		id := scenarioID(file)
		play, ok := all[id]

		if !ok {
			if !slices.Contains(notYet, id) && !slices.Contains(never, id) {
				t.Errorf("%s is neither replayed nor left out", filepath.Base(file))
			}

			continue
		}

		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			t.Parallel()
			replay(t, file, play)
		})
	}
}

func replay(t *testing.T, file string, play func(*scene)) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	var g golden
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}

	want := g.V6
	if want == nil {
		want = g.Observed
	}

	k := newKit(t)
	s := &scene{kit: k, q: k.queue("q"), w: k.worker("q")}
	m := &matcher{began: time.Now()}

	for key := range want.Keys {
		if strings.HasSuffix(key, ":meta") { // Node's Queue object writes it on opening
			k.must(k.r.HSet(t.Context(), key, "opts.maxLenEvents", "10000").Err())
		}
	}

	play(s)
	m.unordered = scenarioID(file) == "65" // the order of a set's members

	if scenarioID(file) == "97" {
		m.slotDelay = "999"
		s.markNearest(want)
	}

	m.compare(want, k.dump(), k.events)

	for _, d := range m.diffs {
		t.Error(d)
	}

	if t.Failed() {
		t.Logf("steps: %q", g.Steps)
	}
}

func scenarioID(file string) string {
	parts := strings.SplitN(filepath.Base(file), "-", 3)
	if parts[0] == "mix" {
		return "mix-" + parts[1]
	}

	return parts[0]
}

// goldenFiles looks for shared/bullmq/golden beside the repository or further up.
func goldenFiles(t *testing.T) []string {
	t.Helper()

	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}

	for ; ; dir = filepath.Dir(dir) {
		files, err := filepath.Glob(filepath.Join(dir, "shared", "bullmq", "golden", "*.json"))
		if err == nil && len(files) > 0 {
			return files
		}

		if dir == filepath.Dir(dir) {
			t.Skip("golden observations of BullMQ (shared/bullmq/golden) are not on this machine")
		}
	}
}

func producerScenes() map[string]func(*scene) {
	return map[string]func(*scene){
		"01": func(*scene) {},
		"03": func(s *scene) {
			s.add(s.q, "a", json.RawMessage(`{"x":1}`), JobOptions{})
			s.add(s.q, "b", nil, JobOptions{})
			s.add(s.q, "n", json.RawMessage(`null`), JobOptions{})
		},
		"04": func(s *scene) {
			s.add(s.q, "a", nil, JobOptions{
				Attempts: 3, Backoff: &Backoff{Type: "fixed", Delay: time.Second}, RemoveOnComplete: &Keep{Now: true},
				RemoveOnFail: &Keep{Count: 10}, KeepLogs: 5, StackTraceLimit: new(2), SizeLimit: 1000, Timestamp: time.Now(),
			})
			s.add(s.q, "b", nil, JobOptions{
				Backoff:          &Backoff{Type: "exponential", Delay: 500 * time.Millisecond, Jitter: 0.5},
				RemoveOnComplete: &Keep{Age: time.Minute, Count: 5, Limit: 7}, RemoveOnFail: &Keep{},
			})
			s.add(s.q, "c", nil, JobOptions{Telemetry: "tp", OmitContext: true})
			s.add(s.q, "d", json.RawMessage(`{"keep":[]}`), JobOptions{Extra: map[string]json.RawMessage{
				"foo": json.RawMessage("{}"), "bar": json.RawMessage("{}"), "big": json.RawMessage("123456789012350000"),
			}})
		},
		"05": func(s *scene) {
			at := time.Now()
			s.add(s.q, "a", nil, JobOptions{Delay: time.Minute, Timestamp: at})
			s.add(s.q, "b", nil, JobOptions{Delay: time.Minute, Timestamp: at})
			s.add(s.q, "c", nil, JobOptions{Delay: 30 * time.Second, Timestamp: at})
			s.add(s.q, "d", nil, JobOptions{})
		},
		"07": func(s *scene) {
			s.add(s.q, "a", nil, JobOptions{})
			s.add(s.q, "b", nil, JobOptions{})
			s.add(s.q, "c", nil, JobOptions{LIFO: true})
			s.add(s.q, "d", nil, JobOptions{LIFO: true})
		},
		"08": func(s *scene) {
			s.add(s.q, "a", json.RawMessage(`{"v":1}`), JobOptions{JobID: "my-id"})

			again, err := s.q.Add(s.t.Context(), "a", json.RawMessage(`{"v":2}`), JobOptions{JobID: "my-id"})
			s.must(err)

			if !again.Duplicate {
				s.t.Error("the second add of an id is not reported as a duplicate")
			}

			// Node still takes ids of three parts for old repeatable jobs; our Add does not.
			a, err := encodeAddition(NewJob{Name: "a", Opts: JobOptions{JobID: "x:y:z"}}, time.Now())
			s.must(err)
			_, err = s.q.scripts.addAny.run(s.t.Context(), s.q.client, s.q.keys, a.list()...)
			s.must(err)

			for _, id := range []string{"123", "0:x", "a:b", "0", "-5"} {
				if _, err := s.q.Add(s.t.Context(), "a", nil, JobOptions{JobID: id}); !errors.Is(err, ErrBadJobID) {
					s.t.Errorf("id %q: %v", id, err)
				}
			}

			s.add(s.q, "a", nil, JobOptions{JobID: "007"})
			s.add(s.q, "a", nil, JobOptions{JobID: "1.5"})
			s.add(s.q, "a", nil, JobOptions{})
		},
		"09": func(s *scene) {
			added, err := s.q.AddBulk(s.t.Context(), []NewJob{
				{Name: "a"},
				{Name: "b", Opts: JobOptions{Delay: time.Minute}},
				{Name: "c", Opts: JobOptions{Priority: 4}},
				{Name: "d", Opts: JobOptions{JobID: "k"}},
				{Name: "e", Opts: JobOptions{JobID: "k"}},
			})
			s.must(err)

			if !added[4].Duplicate || added[4].ID != "k" {
				s.t.Errorf("bulk: %+v", added)
			}
		},
	}
}

func dedupScenes() map[string]func(*scene) {
	return map[string]func(*scene){
		"47": func(s *scene) {
			d := Deduplication{ID: "d", TTL: 20 * time.Second, Extend: true}
			s.add(s.q, "a", json.RawMessage(`{"v":1}`), JobOptions{Deduplication: &d})

			longer := d
			longer.TTL = 40 * time.Second
			s.add(s.q, "a", nil, JobOptions{Deduplication: &longer})
		},
		"48": func(s *scene) {
			for i := range 2 {
				s.add(s.q, "a", map[string]int{"v": i + 1}, JobOptions{
					Delay:         20 * time.Second,
					Deduplication: &Deduplication{ID: "d", TTL: 20 * time.Second, Extend: true, Replace: true},
				})
			}
		},
		"49": func(s *scene) {
			for range 2 {
				s.add(s.q, "a", json.RawMessage(`{"v":1}`), JobOptions{Deduplication: &Deduplication{ID: "d", Replace: true}})
			}
		},
		"52": func(s *scene) {
			s.must(s.q.Remove(s.t.Context(), s.add(s.q, "a", nil, JobOptions{Deduplication: &Deduplication{ID: "d"}})))
		},
		"90": func(s *scene) {
			q, err := NewQueue(Options{RedisURL: s.url, Prefix: "{app}", Name: "q"})
			s.must(err)
			s.t.Cleanup(func() { _ = q.Close() })
			s.add(q, "a", nil, JobOptions{})
			s.add(q, "a", nil, JobOptions{Deduplication: &Deduplication{ID: "d"}})
		},
	}
}

func takeScenes() map[string]func(*scene) {
	return map[string]func(*scene){
		"15": func(s *scene) {
			s.plain(2)
			s.with(func(o *WorkerOptions) { o.WorkerName = "W" })
			s.take("t1")
		},
		"16": func(s *scene) {
			for _, o := range []JobOptions{{}, {Priority: 9}, {Priority: 1}, {LIFO: true}, {}, {Priority: 1}} {
				s.add(s.q, "a", nil, o)
			}

			for i := range 6 {
				s.take(fmt.Sprintf("t%d", i))
			}

			s.none()
		},
		"17": func(s *scene) {
			s.add(s.q, "a", nil, JobOptions{Delay: 40 * time.Millisecond})
			s.add(s.q, "a", nil, JobOptions{Delay: 40 * time.Millisecond, Priority: 3})
			s.add(s.q, "a", nil, JobOptions{Delay: time.Minute})
			sleep(s.t.Context(), 100*time.Millisecond) // the scenario's own step: both jobs have to be due
			s.take("t1")
		},
		"18": func(s *scene) {
			s.add(s.q, "a", nil, JobOptions{Priority: 5})
			s.take("t1")
			s.none()
		},
	}
}

func limitScenes() map[string]func(*scene) {
	return map[string]func(*scene){
		"19": func(s *scene) {
			s.must(s.r.HSet(s.t.Context(), "bull:q:meta", "concurrency", "1").Err())
			s.plain(2)
			h := s.take("t1")
			s.none()
			s.plain(1)
			s.finishAndTake(h, "\"r\"")
		},
		"20": func(s *scene) { s.with(seconds20); s.plain(2); s.take("t1"); s.none() },
		"21": func(s *scene) {
			s.must(s.r.HSet(s.t.Context(), "bull:q:meta", "max", "1", "duration", "20000").Err())
			s.plain(2)
			s.take("t1")
			s.none()
		},
		"23": func(s *scene) {
			s.add(s.q, "a", nil, JobOptions{Priority: 4})
			s.add(s.q, "b", nil, JobOptions{Priority: 4})
			s.expect(s.w.putBack(s.take("t1")), OutcomePutBack)
		},
		"44": func(s *scene) {
			s.plain(3)

			var holds []*hold
			for _, token := range []string{"t1", "t2", "t3"} {
				holds = append(holds, s.take(token))
			}

			s.stalledCheck(30 * time.Second)
			s.must(s.r.Del(s.t.Context(), "bull:q:2:lock").Err())
			holds[2].token = "wrong"
			s.w.opts.LockDuration = time.Minute
			lost, err := s.w.extend(s.t.Context(), holds)
			s.must(err)

			if len(lost) != 2 || !lost["2"] || !lost["3"] {
				s.t.Errorf("lost %v, want 2 and 3", lost)
			}
		},
		"101": func(s *scene) {
			s.with(func(o *WorkerOptions) { o.Limiter = &Limiter{Max: 5, Duration: 20 * time.Second} })
			s.plain(1)
			s.must(s.r.HSet(s.t.Context(), "bull:q:1", "defa", "x").Err())

			o := s.w.opts
			s.work("q", o, func(context.Context, *Job) (any, error) { s.t.Error("handler called"); return nil, nil })
			s.must(s.r.Del(s.t.Context(), "bull:q:stalled-check").Err()) // the observed worker ran without the check
		},
		"88": func(s *scene) {
			for i := range 3 {
				s.add(s.q, "a", map[string]int{"i": i}, JobOptions{})
			}

			o := s.workerOptions("q")
			o.WorkerName = "W"
			n := 0
			s.work("q", o, func(context.Context, *Job) (any, error) { n++; return n - 1, nil })
		},
		"mix-10": func(s *scene) {
			s.schedule("s", Repeat{Every: 20 * time.Second}, templateA)
			h := s.take("t1")
			s.w.continueSchedule(h)
			s.expect(s.w.complete(h, 1), OutcomeCompleted)
			// nrjid is written by major 5 only and read by nobody.
			s.must(s.r.HSet(s.t.Context(), "bull:q:"+h.job.ID, "nrjid", "repeat:s:"+nextOf(s)).Err())
		},
	}
}
