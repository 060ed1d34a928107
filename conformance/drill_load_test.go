package conformance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posefleet/posefleet/internal/operator"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
)

// kind is how a job of the drill behaves; it is the last part of its analysis id, so that the extractor knows it as well.
type kind string

const (
	kindPlain  kind = "plain"  // a short job, by the outbox
	kindOwn    kind = "own"    // a short job, by our producer
	kindLong   kind = "long"   // longer than its lock
	kindBroken kind = "broken" // a permanent fault of its clip
	kindFlaky  kind = "flaky"  // kills its extractor the first time
	kindPoison kind = "poison" // kills its extractor every time
	kindDoor   kind = "door"   // a short job, by the HTTP doors
)

// kindShares are how often each kind comes, in per mille.
func kindShares(door bool) []struct {
	kind  kind
	share uint32
} {
	doors := uint32(0)
	if door {
		doors = 40
	}

	return []struct {
		kind  kind
		share uint32
	}{{kindLong, 40}, {kindBroken, 60}, {kindFlaky, 60}, {kindPoison, 15}, {kindDoor, doors}, {kindOwn, 300}, {kindPlain, 1000}}
}

// jobID is the id of the n-th job. It depends on nothing but the seed and n.
func jobID(seed int64, n int, door bool) string {
	id := fmt.Sprintf("drill-%d-%06d", seed, n)
	at := spread(id, 1000)

	for _, s := range kindShares(door) {
		if at < s.share {
			return id + "-" + string(s.kind)
		}

		at -= min(s.share, at)
	}

	return id + "-" + string(kindPlain)
}

func kindOf(id string) kind { return kind(id[strings.LastIndexByte(id, '-')+1:]) }

// spread is a number below n that depends on the text only.
func spread(text string, n uint32) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails

	sum := h.Sum32()
	sum ^= sum >> 15
	sum *= 0x2c1b3c6d // the last characters of similar texts reach the low bits only through this
	sum ^= sum >> 12

	return sum % n
}

// of is the behaviour of a mixed extractor for one job.
func (s stopwatch) of(id string) stopwatch {
	unit := s.work
	s.work = unit * time.Duration(10+spread(id+"t", 90)) / 100

	switch kindOf(id) {
	case kindLong:
		s.work = unit * time.Duration(300+spread(id+"t", 300)) / 100
	case kindBroken:
		s.fail = string(protocol.CodeNoVideoStream)
	case kindFlaky:
		s.crash = starts(s.journal, id) == 0
	case kindPoison:
		s.crash = true
	}

	return s
}

// load feeds the drill with analyses: creates them, uploads their clips, and hands them over in the way of their kind. Everything is
// repeated until it is known to have worked, as an orchestrator's durable steps are.
type load struct {
	drill *drill
	next  atomic.Int64 // number of the next job
	fed   atomic.Int64 // handed over
	all   sync.WaitGroup
	doors map[string]*knock // by member; made before the feeders start

	mu       sync.Mutex
	pushed   map[string]bool // accepted by a door at least once
	refusals map[int]int     // answers of the doors by status
}

const feeders = 3

// feedPause is between two tries of what did not work.
const feedPause = 100 * time.Millisecond

// feedLimit is how long one analysis may need to get into the fleet.
const feedLimit = 2 * time.Minute

func startLoad(ctx context.Context, d *drill, c clip) *load {
	l := &load{drill: d, doors: map[string]*knock{}, pushed: map[string]bool{}, refusals: map[int]int{}}
	for _, m := range d.members {
		l.doors[m.name] = d.sys.door(m.worker)
	}

	for range feeders {
		l.all.Go(func() { l.feed(ctx, c) }) // ends with the last job, or with ctx
	}

	return l
}

// done is how many jobs have ended, or are no affair of the queue's.
func (l *load) done() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.drill.watch.finished() + int64(len(l.pushed))
}

// allIn tells whether every job was handed over.
func (l *load) allIn() bool { return l.fed.Load() >= int64(l.drill.cfg.jobs) }

func (l *load) feed(ctx context.Context, c clip) {
	for ctx.Err() == nil {
		n := l.next.Add(1) - 1
		if n >= int64(l.drill.cfg.jobs) {
			return
		}

		for l.fed.Load()-l.done() > int64(l.drill.cfg.backlog) && ctx.Err() == nil {
			pause(ctx, feedPause/4)
		}

		if !l.handOver(ctx, jobID(l.drill.cfg.seed, int(n), l.drill.cfg.door), c) {
			return
		}

		l.fed.Add(1)
	}
}

// handOver tries until the analysis is in the fleet. No fault lasts as long as feedLimit: then something else is wrong, and a drill without
// a load would find nothing.
func (l *load) handOver(ctx context.Context, id string, c clip) bool {
	limit := time.Now().Add(feedLimit)

	for ctx.Err() == nil {
		err := l.hand(ctx, id, c)
		if err == nil {
			return true
		}

		if time.Now().After(limit) {
			l.drill.watch.fault("%s can't be handed over: %v", id, err)
			l.fed.Store(int64(l.drill.cfg.jobs)) // the faults end

			return false
		}

		pause(ctx, feedPause)
	}

	return false
}

// wishes are what the analyses ask for: of the real extractor the fastest model.
func wishes() *protocol.Params {
	if *drillReal {
		return &protocol.Params{Model: "lite"}
	}

	return nil
}

// hand takes one analysis all the way into the fleet. It may be called again after any error.
func (l *load) hand(ctx context.Context, id string, c clip) error {
	api, size, sum := l.drill.sys.api, size(c.path), sha256.Sum256(l.drill.clip)

	created, err := api.Create(ctx, id, []operator.Clip{{
		ID: "c1", Name: filepath.Base(c.path), Size: size, SHA256: hex.EncodeToString(sum[:]), ContentType: "video/mp4",
	}}, wishes())
	if err != nil {
		return err
	}

	if err := api.Put(ctx, created.Uploads[0], c.path); err != nil && !isConflict(err) {
		return err
	}

	how := operator.DispatchNone
	if k := kindOf(id); k == kindPlain || k == kindLong || k == kindBroken {
		how = operator.DispatchQueue
	}

	if err := api.Submit(ctx, id, how); err != nil && !isConflict(err) {
		return err
	}

	switch {
	case how == operator.DispatchQueue:
		return nil
	case kindOf(id) == kindDoor && l.push(ctx, id):
		return nil
	}

	_, err = l.drill.sys.queue.Add(ctx, protocol.JobName, protocol.NewJobData(id), queue.JobOptions{
		JobID: id, Attempts: 3, Backoff: &queue.Backoff{Type: "fixed", Delay: 200 * time.Millisecond},
	})

	return err
}

// isConflict tells whether the step was done before.
func isConflict(err error) bool {
	status, ok := errors.AsType[*operator.StatusError](err)

	return ok && status.Status == http.StatusConflict
}

// push tries the doors one after the other; false means that the queue has to take the job.
func (l *load) push(ctx context.Context, id string) bool {
	for i := range l.drill.members {
		m := l.drill.members[(i+int(spread(id, 3)))%len(l.drill.members)]

		try, cancel := context.WithTimeout(ctx, 6*time.Second)
		a, err := l.doors[m.name].start(try, id)

		cancel()

		l.mu.Lock()
		l.refusals[a.status]++
		l.mu.Unlock()

		if err == nil && (a.status == http.StatusAccepted || a.status == http.StatusOK || a.status == http.StatusGone) {
			l.mu.Lock()
			l.pushed[id] = true
			l.mu.Unlock()

			return true
		}
	}

	return false
}

func (l *load) wasPushed(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.pushed[id]
}

// pause waits, or less if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()

	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
