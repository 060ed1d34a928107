package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// sink notes what is written and when.
type sink struct {
	mu       sync.Mutex
	progress []protocol.Progress
	at       []time.Time
	lines    []string
	block    bool // a Redis that does not answer
}

func (s *sink) UpdateProgress(ctx context.Context, p any) error {
	if s.block {
		<-ctx.Done()
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	progress, ok := p.(protocol.Progress)
	if !ok {
		return errors.New("no progress")
	}
	s.progress, s.at = append(s.progress, progress), append(s.at, time.Now())
	return nil
}

func (s *sink) Log(ctx context.Context, line string) error {
	if s.block {
		<-ctx.Done()
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
	return nil
}

func TestJournalWritesAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		j := startJournal(t.Context(), s, slog.New(slog.DiscardHandler))
		for i := range 1000 { // 10 s of a fast extractor
			j.setProgress(protocol.Progress{Stage: protocol.StageExtract, Done: float64(i) / 1000})
			if i%100 == 0 {
				j.line(fmt.Sprint("line ", i))
			}
			time.Sleep(10 * time.Millisecond) //nolint:forbidigo // fake time
		}
		j.close(time.Second)
		if len(s.lines) != 10 || s.lines[0] != "line 0" || s.lines[9] != "line 900" {
			t.Errorf("lines %v", s.lines)
		}
		if n := len(s.progress); n < 9 || n > 11 {
			t.Errorf("%d progress writes in 10 s", n)
		}
		for i := 1; i < len(s.at); i++ {
			if gap := s.at[i].Sub(s.at[i-1]); gap < time.Second && i < len(s.at)-1 { // the last is that of close
				t.Errorf("gap of %s", gap)
			}
			if s.progress[i].Done <= s.progress[i-1].Done {
				t.Errorf("progress went back: %v", s.progress)
			}
		}
	})
}

// The last word is there when the job ends, however soon after the one before it; a job that is another's keeps what
// its holder writes.
func TestJournalWritesTheNewestProgressAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		wait time.Duration
		want int
	}{{"ours", time.Second, 2}, {"another's", 0, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &sink{}
				j := startJournal(t.Context(), s, slog.New(slog.DiscardHandler))
				for _, stage := range []protocol.Stage{protocol.StageRedeem, protocol.StageUpload, protocol.StageReport} {
					j.setProgress(protocol.Progress{Stage: stage, Done: 1})
					synctest.Wait()
				}
				j.close(tt.wait)
				<-j.done
				if len(s.progress) != tt.want {
					t.Fatalf("progress %v, want %d writes", s.progress, tt.want)
				}
				if last := s.progress[len(s.progress)-1]; tt.want > 1 && (last.Stage != protocol.StageReport || last.Done != 1) {
					t.Errorf("the last write is %v", last)
				}
			})
		})
	}
}

func TestJournalNeverHoldsARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := startJournal(t.Context(), &sink{block: true}, slog.New(slog.DiscardHandler))
		begin := time.Now()
		for range 1000 {
			j.line("x")
			j.setProgress(protocol.Progress{})
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("the run waited %s", took)
		}
		j.close(time.Second)
		if took := time.Since(begin); took != time.Second {
			t.Errorf("the end waited %s, want 1s", took)
		}
		<-j.done // the writer gives up by itself
	})
}

func TestJournalWithoutASink(t *testing.T) {
	t.Parallel()
	j := startJournal(t.Context(), nil, slog.New(slog.DiscardHandler))
	j.line("x")
	j.setProgress(protocol.Progress{})
	j.close(time.Second)
}
