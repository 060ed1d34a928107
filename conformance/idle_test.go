package conformance

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/nettest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

var overheadReal = flag.String("overhead.real", "", "model with which TestOverhead also runs the real extractor on a real clip of 30 s")

// TestIdle: what a worker costs that has nothing to do, and how soon it is ready. The best start counts, of three or of as many as a machine
// with other work needs.
func TestIdle(t *testing.T) {
	t.Parallel()

	const (
		most   = 40 << 10 // kB
		ready  = 300 * time.Millisecond
		turns  = 3
		atMost = 20
	)

	s := newQueueOnly(t)
	s.front = newFront(t) // nobody is behind it: an idle worker asks nothing
	s.workerSecret, s.doorSecret = webhook.Generate(), webhook.Generate()
	line, sent := counted(t, s.redis.Addr)
	best := time.Hour

	var w *worker

	for turn := 0; turn < turns || best > ready && turn < atMost; turn++ {
		if w != nil {
			w.terminate(t)
			w.awaitExit(t, startLimit)
		}

		w = s.startWorker("worker", extra{"POSEFLEET_REDIS_URL": "redis://" + line.Addr(), "POSEFLEET_EXTRACTOR": stopwatch{}.command()})

		seconds, err := strconv.ParseFloat(w.metric("posefleet_start_to_ready_seconds"), 64)
		if err != nil {
			t.Fatal(err)
		}

		best = min(best, time.Duration(seconds*float64(time.Second)))
	}

	// Before it is asked for its metrics a hundred times a second, which is no idleness.
	rss := procStatus(t, w.Pid(), "VmRSS:")

	// From the end of one wait for a job to the end of the third after it.
	from, before := w.nextFetch(t), sent.Load()

	to := from
	for range 3 {
		to = w.nextFetch(t)
	}

	rate := float64(sent.Load()-before) / (to - from)

	t.Logf("ready after %v, RSS %.1f MB, %.2f commands a second", best, float64(rss)/1024, rate)

	if best > ready || rss > most || rate > 1 {
		t.Errorf("ready after %v (at most %v), RSS %d kB (at most %d), %.2f commands a second (at most 1)", best, ready, rss, most, rate)
	}
}

// nextFetch waits until the worker has looked for work once more and returns when that was, in seconds.
func (w *worker) nextFetch(t *testing.T) float64 {
	t.Helper()

	before := w.metric("posefleet_last_fetch_timestamp_seconds")
	now := before

	wait.For(t, startLimit, func() bool {
		now = w.metric("posefleet_last_fetch_timestamp_seconds")

		return now != before && now != ""
	}, "the worker does not fetch")

	at, err := strconv.ParseFloat(now, 64)
	if err != nil {
		t.Fatal(err)
	}

	return at
}

// counted is a line to Redis that counts the commands on it.
func counted(t *testing.T, target string) (*nettest.Proxy, *atomic.Int64) {
	t.Helper()

	line, sent := nettest.Start(t, target), &atomic.Int64{}
	begin := regexp.MustCompile(`(?m)^\*\d+\r\n\$`)

	line.LoseAnswers(1, func(request []byte) bool {
		sent.Add(int64(len(begin.FindAllIndex(request, -1))))

		return false // nothing is lost
	})

	return line, sent
}

// realOverhead is the part that the fleet adds to the real extractor's own time on a clip of 30 s, both taken from the same run.
func realOverhead(t *testing.T, model string) {
	t.Helper()
	realExtractor(t)

	film := filepath.Join(t.TempDir(), "film.mov")
	loop := exec.CommandContext(t.Context(), need.Program(t, "ffmpeg"), "-v", "error", "-stream_loop", "-1", "-t", "30",
		"-i", need.Media(t, "videos/decord_phone_rot90.mov"), "-c", "copy", "-an", film)

	if out, err := loop.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	s := newSystem(t, posefleet(t))
	s.startWorker("worker", nil)
	s.prepare("an_real", clip{"film.mov", film}, &protocol.Params{Model: model})

	begin := time.Now()

	s.add("an_real", 1)

	whole := s.awaitJob("an_real").FinishedOn.Sub(begin)

	for _, m := range s.front.record() {
		if !m.is("result", "an_real") {
			continue
		}

		var result protocol.Result
		if err := json.Unmarshal(m.Body, &result); err != nil || result.Data.Timings == nil {
			t.Fatalf("%v: %s", err, m.Body)
		}

		own := time.Duration(result.Data.Timings.ExtractMs) * time.Millisecond
		size, _ := os.Stat(film)
		t.Logf("%s on 30 s and %d bytes: %v, of which %v are the fleet's: %.2f %%", model, size.Size(), own, whole-own,
			100*(whole-own).Seconds()/own.Seconds())

		if whole-own > own/20 {
			t.Errorf("the fleet adds %v to %v", whole-own, own)
		}

		return
	}

	t.Error(fmt.Errorf("no result of %v", whole))
}
