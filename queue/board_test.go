package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/internal/need"
	npm "github.com/posefleet/posefleet/internal/node"
)

// boardSight is what testdata/board.cjs saw.
type boardSight struct {
	Counts  map[string]int
	Lonely  bool
	Tabs    map[string]string
	Retried string
	Errors  []string
}

// A dashboard that knows nothing of us, on a queue that Go fills and works: its numbers, its view of a failed job, and its Retry button,
// after which Go works on the job again.
func TestBullBoard(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	k.fillBoard(q)

	seen := k.openBoard()

	if diff := cmp.Diff(map[string]int{
		"waiting children": 1, "completed": 3, "failed": 1, "delayed": 2,
	}, withoutZeros(seen.Counts)); diff != "" {
		t.Errorf("numbers: %s", diff)
	}

	if seen.Lonely || len(seen.Errors) > 0 {
		t.Errorf("no worker is seen: %v, errors %q", seen.Lonely, seen.Errors)
	}

	for tab, text := range seen.Tabs {
		if !strings.Contains(text, "flaky\nbad") || !strings.Contains(text, boardWords[tab]) || !strings.Contains(text, "by go") {
			t.Errorf("tab %s: %s", tab, text)
		}
	}

	k.awaitState(q, "flaky", StateCompleted)

	if j, err := q.Job(t.Context(), "flaky"); err != nil || string(j.ReturnValue) != `"by go"` || j.AttemptsStarted != 2 {
		t.Errorf("%s, %d starts, %v", j.ReturnValue, j.AttemptsStarted, err)
	}

	if !strings.Contains(seen.Retried, "flaky\nbad") {
		t.Errorf("after the retry: %s", seen.Retried)
	}
}

// boardWords are what the tabs of the failed job have to show.
var boardWords = map[string]string{"Data": "squat", "Options": "attempts", "Progress": "40", "Logs": "a row by go", "Error": "not the first time"}

// fillBoard makes jobs of every kind and works on them.
func (k *kit) fillBoard(q *Queue) {
	k.t.Helper()

	o := k.workerOptions("q")
	o.WorkerName = "go"
	k.run(o, func(ctx context.Context, j *Job) (any, error) {
		if err := errors.Join(j.UpdateProgress(ctx, 40), j.Log(ctx, "a row by go")); err != nil {
			return nil, err
		}

		if j.ID == "flaky" && j.AttemptsStarted == 1 {
			return nil, errors.New("not the first time")
		}

		return "by go", nil
	})

	f, err := NewFlows(FlowOptions{RedisURL: k.url})
	k.must(err)
	k.t.Cleanup(func() { _ = f.Close() })

	for _, id := range []string{"c1", "c2", "c3"} {
		k.add(q, "fine", nil, JobOptions{JobID: id})
		k.awaitState(q, id, StateCompleted)
	}

	k.add(q, "bad", map[string]string{"exercise": "squat"}, JobOptions{JobID: "flaky"})
	k.awaitState(q, "flaky", StateFailed)
	k.add(q, "later", nil, JobOptions{Delay: time.Hour})

	_, err = f.Add(k.t.Context(), FlowJob{Queue: "q", Name: "p", Children: []FlowJob{{Queue: "q", Name: "c", Opts: JobOptions{Delay: time.Hour}}}})
	k.must(err)
}

func (k *kit) openBoard() boardSight {
	k.t.Helper()
	need.Node(k.t)

	host, port, err := net.SplitHostPort(k.srv.Addr)
	k.must(err)
	words, err := json.Marshal(boardWords)
	k.must(err)

	shot := filepath.Join(k.t.TempDir(), "board.png")
	k.t.Cleanup(func() { keepShot(k.t, shot) })

	cmd, err := npm.Command(k.t.Context(), filepath.Join("testdata", "board.cjs"), "bullmq6", host, port, "q", string(words), shot)
	k.must(err)

	var complaints strings.Builder

	cmd.Env = append(cmd.Env, "CHROMIUM="+need.Program(k.t, "chromium"))
	cmd.Stderr = &complaints
	cmd.WaitDelay = 10 * time.Second

	out, err := cmd.Output()
	if err != nil {
		k.t.Fatalf("board.cjs: %v\n%s", err, complaints.String())
	}

	var seen boardSight
	if err := json.Unmarshal(out, &seen); err != nil {
		k.t.Fatalf("board.cjs: %v: %s", err, out)
	}

	return seen
}

// keepShot saves the last screenshot of a failed test from the end of its folder.
func keepShot(t *testing.T, shot string) {
	t.Helper()

	if !t.Failed() {
		return
	}

	kept := filepath.Join(os.TempDir(), fmt.Sprintf("posefleet-board-%d.png", os.Getpid()))

	text, err := os.ReadFile(shot)
	if err == nil {
		err = os.WriteFile(kept, text, 0o644)
	}

	t.Logf("screenshot: %s, %v", kept, err)
}

// withoutZeros are the states that have jobs.
func withoutZeros(counts map[string]int) map[string]int {
	maps.DeleteFunc(counts, func(_ string, n int) bool { return n == 0 })

	return counts
}
