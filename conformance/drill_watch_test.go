package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

const sampleEvery = 250 * time.Millisecond

// sample is the state of the queue at one moment.
type sample struct {
	at     time.Time
	counts queue.Counts
	// up is how many workers can work: alive, thawed, on the line.
	up int
}

// take is one redeem that reached the front.
type take struct {
	at  time.Time
	id  string
	pid int
}

// watch looks at the fleet from outside while the drill goes on, and writes down what must not be.
type watch struct {
	drill    *drill
	verifier *webhook.Verifier
	probe    *http.Client
	all      sync.WaitGroup

	mu      sync.Mutex
	samples []sample
	takes   []take
	orphans map[string]time.Time // jobs in active without a lock, since when
	flagged map[string]bool      // of them, those that were reported
	late    map[string]int       // probes in a row that were too late, by address
	slowest time.Duration        // of all probes
	probes  int
	wrong   []string
}

func newWatch(d *drill) (*watch, error) {
	secrets, err := webhook.ParseSecrets(d.sys.workerSecret)
	if err != nil {
		return nil, err
	}

	return &watch{
		drill: d, verifier: webhook.NewVerifier(secrets),
		probe:   &http.Client{Timeout: 3 * d.cfg.probe, Transport: &http.Transport{DisableKeepAlives: true}},
		orphans: map[string]time.Time{}, flagged: map[string]bool{}, late: map[string]int{},
	}, nil
}

// start begins to look; both goroutines end with ctx.
func (w *watch) start(ctx context.Context) {
	w.all.Go(func() { w.every(ctx, w.look) })
	w.all.Go(func() { w.every(ctx, w.probeAll) })
}

func (w *watch) every(ctx context.Context, look func(context.Context)) {
	for ctx.Err() == nil {
		look(ctx)
		pause(ctx, sampleEvery)
	}
}

// fault notes a breach of an invariant.
func (w *watch) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// finished is how many jobs of the queue had ended at the last look.
func (w *watch) finished() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()

	if len(w.samples) == 0 {
		return 0
	}

	c := w.samples[len(w.samples)-1].counts

	return c.Completed + c.Failed
}

// look reads the queue: counts for the picture, and jobs that nobody holds (invariant 3).
func (w *watch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()

	counts, err := w.drill.sys.queue.Counts(ctx)
	if err != nil {
		w.forgetOrphans() // Redis is away: nobody can hold anything
		return
	}

	up := w.drill.able()

	w.mu.Lock()
	w.samples = append(w.samples, sample{at: time.Now(), counts: counts, up: up})
	w.mu.Unlock()

	active, err := w.drill.redis.LRange(ctx, "bull:"+queueName+":active", 0, -1).Result()
	if err != nil || up == 0 {
		w.forgetOrphans()
		return
	}

	held := make([]bool, len(active))

	for i, id := range active {
		n, err := w.drill.redis.Exists(ctx, "bull:"+queueName+":"+id+":lock").Result()
		held[i] = err != nil || n == 1
	}

	w.noteOrphans(active, held)
}

func (w *watch) forgetOrphans() {
	w.mu.Lock()
	defer w.mu.Unlock()

	clear(w.orphans)
}

func (w *watch) noteOrphans(active []string, held []bool) {
	w.mu.Lock()
	defer w.mu.Unlock()

	now, still := time.Now(), map[string]bool{}

	for i, id := range active {
		if held[i] {
			continue
		}

		still[id] = true
		if w.orphans[id].IsZero() {
			w.orphans[id] = now
		}

		if age := now.Sub(w.orphans[id]); age > w.drill.cfg.lock+2*w.drill.cfg.stalled+w.drill.cfg.slack && !w.flagged[id] {
			w.flagged[id] = true
			w.wrong = append(w.wrong, fmt.Sprintf("I3: %s is in active without a lock for %v", id, age.Round(time.Millisecond)))
		}
	}

	for id := range w.orphans {
		if !still[id] {
			delete(w.orphans, id)
		}
	}
}

// probeAll asks every worker that can answer how it is (invariant 4).
func (w *watch) probeAll(ctx context.Context) {
	for _, m := range w.drill.members {
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			if m.answering() {
				w.probeOne(ctx, m, path)
			}
		}
	}
}

func (w *watch) probeOne(ctx context.Context, m *member, path string) {
	begin := time.Now()
	text, err := w.fetch(ctx, m.admin+path)
	took := time.Since(begin)

	if ctx.Err() != nil || !m.answeringSince(begin) {
		return // it was stopped meanwhile
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	w.probes++
	w.slowest = max(w.slowest, took)
	key := m.name + path

	if took <= w.drill.cfg.probe {
		w.late[key] = 0
	} else if w.late[key]++; w.late[key] == 2 {
		w.wrong = append(w.wrong, fmt.Sprintf("I4: %s of %s took %v twice in a row (%v)", path, m.name, took.Round(time.Millisecond), err))
	}

	if word := w.drill.leak(text); word != "" {
		w.wrong = append(w.wrong, fmt.Sprintf("I6: %s of %s shows %s", path, m.name, word))
	}
}

func (w *watch) fetch(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}

	response, err := w.probe.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)

	return string(text), err
}

// arrived sees every message on its way to the control plane: its signature holds over the bytes as they came (invariant 8), and a redeem
// says that its worker works.
func (w *watch) arrived(m *message) {
	if _, err := w.verifier.Verify(m.Header, m.Body); err != nil {
		w.fault("I8: %s is not signed as it must be: %v", m.Path, err)
	}

	var r protocol.RedeemRequest
	if json.Unmarshal(m.Body, &r) != nil || !m.is("redeem", r.AnalysisID) {
		return
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	w.takes = append(w.takes, take{at: m.Came, id: r.AnalysisID, pid: pidOf(r.WorkerID)})
}

// pidOf reads the process out of a worker's id, host-pid-random.
func pidOf(workerID string) int {
	parts := strings.Split(workerID, "-")
	if len(parts) < 3 {
		return 0
	}

	pid, _ := strconv.Atoi(parts[len(parts)-2]) // 0 is nobody

	return pid
}

// firstTake is when one of these processes took a job after a moment.
func (w *watch) firstTake(pids []int, after time.Time) (time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	for _, t := range w.takes {
		for _, pid := range pids {
			if t.pid == pid && !t.at.Before(after) {
				return t.at, nil
			}
		}
	}

	return time.Time{}, errors.New("took no job any more")
}

// idleBetween is how long of this time nothing was waiting to be taken.
func (w *watch) idleBetween(from, to time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()

	var idle time.Duration

	for i, s := range w.samples {
		if i == 0 || s.counts.Waiting > 0 || s.at.Before(from) || w.samples[i-1].at.After(to) {
			continue
		}

		begin, end := w.samples[i-1].at, s.at
		if begin.Before(from) {
			begin = from
		}

		if end.After(to) {
			end = to
		}

		idle += end.Sub(begin)
	}

	return idle
}
