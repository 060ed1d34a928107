package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/store/storetest"
	"github.com/posefleet/posefleet/internal/wait"
)

// lines is a log that can be counted.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(b))

	return len(b), nil
}

// with returns the lines that hold the text.
func (l *lines) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, line := range l.all {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}

	return out
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }

const (
	waitsText  = `"a step of a run waits"`
	goesOnText = `"a step of runs goes on"`
)

// standstillNumbers are what a line says.
type standstillNumbers struct {
	Step           string
	Runs, Failures int
	ForMs          int64  `json:"for_ms"`
	AnalysisID     string `json:"analysis_id"`
	Error          string
}

func numbersOf(t *testing.T, line string) standstillNumbers {
	t.Helper()
	var n standstillNumbers
	if err := json.Unmarshal([]byte(line), &n); err != nil {
		t.Fatal(err)
	}

	return n
}

// A thousand runs that wait for ten minutes say so once, then once a minute, and once that they go on.
func TestStandstillIsToldOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const runs, minutes = 1000, 10
		log := &lines{}
		p := &Pipeline{cfg: Config{}, log: log.logger(), standstills: newStandstills(log.logger())}
		back := time.Now().Add(minutes*time.Minute - time.Second)
		var all sync.WaitGroup
		for i := range runs {
			all.Go(func() {
				r := &run{Pipeline: p, in: input{AnalysisID: fmt.Sprintf("an_%d", i)}}
				if _, err := r.persevere(t.Context(), stepAwait, func(context.Context) (progress, error) {
					if time.Now().Before(back) {
						return progress{}, errors.New("no Redis")
					}

					return progress{}, nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		told := log.with(waitsText)
		if len(told) < minutes/2 || len(told) > minutes || len(log.with(goesOnText)) != 1 || len(log.with("")) != len(told)+1 {
			t.Fatalf("%d lines that they wait, %d that they go on, %d in all", len(told), len(log.with(goesOnText)), len(log.with("")))
		}
		if n := numbersOf(t, told[0]); n.Runs != 1 || n.Failures != 1 || n.Step != stepAwait || n.Error != "no Redis" || n.AnalysisID == "" {
			t.Errorf("the first line: %+v", n)
		}
		if n := numbersOf(t, told[len(told)-1]); n.Runs != runs || n.Failures < runs || n.ForMs < time.Minute.Milliseconds() {
			t.Errorf("the last line: %+v", n)
		}
	})
}

// A fault that comes and goes is no more lines than one that stays; another step's is told of its own; one that comes later is news.
func TestStandstillThatComesAndGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		s := newStandstills(log.logger())
		r := &run{in: input{AnalysisID: "an_1"}}
		fails := func(step string) {
			s.waits(t.Context(), r, step, errors.New("no Redis"))
			s.goesOn(t.Context(), r, step)
		}
		want := func(waits, goesOn int) {
			t.Helper()
			if got, on := len(log.with(waitsText)), len(log.with(goesOnText)); got != waits || on != goesOn {
				t.Fatalf("%d lines that they wait, %d that they go on; want %d and %d", got, on, waits, goesOn)
			}
		}
		for range 100 {
			fails(stepAwait)
		}
		want(1, 1)
		fails(stepDispatch)
		want(2, 2)
		<-time.After(standstillQuiet)
		fails(stepAwait)
		want(3, 3)
		s.goesOn(t.Context(), r, stepAwait) // nobody waits
		want(3, 3)
		<-time.After(standstillQuiet)
		gone, end := context.WithCancel(t.Context())
		s.waits(gone, r, stepAwait, errors.New("no Redis"))
		end()
		s.goesOn(gone, r, stepAwait) // the process ends: that is no news about Redis
		want(4, 3)
	})
}

// While the queue can't be asked, the runs that look after their analyses fill no log, and they go on when it can.
func TestRunsWhileTheQueueIsAway(t *testing.T) {
	t.Parallel()
	const runs = 30
	log := &lines{}
	var away atomic.Bool
	var asked atomic.Int64
	away.Store(true)
	b := newBench(t, t.TempDir(), func(c *Config) {
		c.Logger, c.Look = log.logger(), shortestTime
		c.Alive = func(context.Context, store.Run) (bool, error) {
			asked.Add(1)
			if away.Load() {
				return false, errors.New("dial tcp 127.0.0.1:1: connect: connection refused")
			}

			return true, nil
		}
	})
	begun := time.Now()
	for i := range runs {
		n := storetest.NewAnalysis(fmt.Sprintf("an_%d", i))
		if _, _, err := b.CreateAnalysis(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Submit(t.Context(), store.Submission{ID: n.ID, Clips: n.Clips, Run: store.RunSubmitted}); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := b.Outbox(t.Context(), runs, store.OutboxRun)
	if err != nil || len(entries) != runs {
		t.Fatal(len(entries), err)
	}
	for _, e := range entries {
		if err := b.Start(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	wait.For(t, time.Minute, func() bool { return asked.Load() > 4*runs }, "they do not look")
	most := 1 + int(time.Since(begun)/standstillQuiet)
	if told := log.with(waitsText); len(told) == 0 || len(told) > most {
		t.Errorf("%d lines after %d looks in vain, want 1 to %d:\n%s", len(told), asked.Load(), most, strings.Join(told, ""))
	}
	away.Store(false)
	wait.For(t, 2*time.Minute, func() bool { return len(log.with(goesOnText)) == 1 }, "nothing says that they go on")
}
