package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/internal/operator"
	"github.com/posefleet/posefleet/protocol"
)

const (
	// killedLength is how much of the default clip the killed analysis has: enough to be in the middle of it, also on a machine
	// that is several times as fast as two shared cores: a worker tells its progress once a second.
	killedLength = 10 * time.Second
	// runLimit is how long the run may take from the delivery on to its end.
	runLimit = 30 * time.Second
)

// errTooQuick says what to do where there is no middle.
var errTooQuick = errors.New("the analysis was over before the control plane could be killed: give a longer clip")

// analyseKilled takes the last clip, or the beginning of the default one, through the system once more, dispatched by the run of the control
// plane, and kills the control plane while a worker extracts. The next process goes on with the same run.
func (d *demo) analyseKilled(ctx context.Context, outcomes []*outcome) ([]*outcome, error) {
	c, err := d.killedClip(ctx, outcomes[len(outcomes)-1].clip)
	if err != nil {
		return outcomes, err
	}

	d.term.text("\n%s, and the control plane is killed in the middle of it", c.describe())

	id, err := d.upload(ctx, c)
	if err == nil {
		err = d.api.Submit(ctx, id, operator.DispatchQueue)
	}

	if err != nil {
		return outcomes, err
	}

	d.term.line("submitted", "%s: its run wakes the fleet, dispatches it and waits for the outcome", id)

	k := &killed{demo: d, id: id}
	if err := k.run(ctx); err != nil {
		return outcomes, err
	}

	o, err := readOutcome(ctx, d.api, c, id)
	if err != nil {
		return outcomes, err
	}

	return append(outcomes, o), errors.Join(d.addPreview(ctx, o), k.show(ctx))
}

// killedClip is the clip as it was given, or a part of the default one.
func (d *demo) killedClip(ctx context.Context, last *clip) (*clip, error) {
	if len(d.Clips) > 0 {
		again := *last

		return &again, nil
	}

	dir := filepath.Join(d.dir, "again")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}

	path, err := cut(ctx, assets.DemoClip(), dir, excerptStart, killedLength)
	if err != nil {
		return nil, err
	}

	c, err := openClip(ctx, path)
	if err == nil {
		c.name = fmt.Sprintf("%.0f s of %s", killedLength.Seconds(), c.name)
	}

	return c, err
}

// killed is an analysis that two processes of the control plane see to.
type killed struct {
	*demo
	id            string
	first, second int // process ids
	at            time.Time
}

func (k *killed) run(ctx context.Context) error {
	if err := k.awaitJob(ctx); err != nil {
		return err
	}

	w := &watcher{queue: k.jobs, term: k.term, fleet: k.fleet, id: k.id, until: func(p protocol.Progress) bool { return p.Stage == protocol.StageExtract }}

	job, err := w.follow(ctx)
	if err != nil {
		return err
	}

	if !job.FinishedOn.IsZero() {
		return errTooQuick
	}

	if err := k.killAndStart(ctx); err != nil {
		return err
	}

	w.until = nil
	_, err = w.follow(ctx)

	return err
}

// awaitJob waits until the run has dispatched the analysis.
func (k *killed) awaitJob(ctx context.Context) error {
	return poll(ctx, func() (bool, error) {
		if err := k.fleet.look(ctx); err != nil {
			return false, err
		}

		a, err := k.api.Get(ctx, k.id)
		if err != nil {
			return false, err
		}

		for _, e := range a.Timeline {
			if e.Kind == "enqueued" || e.Kind == "redeemed" {
				return true, nil
			}
		}

		_, err = k.jobs.Job(ctx, k.id)

		return err == nil, nil
	})
}

// poll asks until the answer is yes or an error, or ctx ends.
func poll(ctx context.Context, ask func() (bool, error)) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()

	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}

		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (k *killed) killAndStart(ctx context.Context) error {
	a, err := k.api.Get(ctx, k.id)
	if err != nil {
		return err
	}

	k.first, k.at = k.plane.proc.Pid(), time.Now()
	k.plane.kill()
	k.term.line("kill -9", "control plane (process %d) and with it its worker; the run is %q, the analysis %q", k.first, stageOf(a), a.Status)
	k.fleet.restarted(k.at)

	if err := k.plane.start(ctx); err != nil {
		return err
	}

	k.second = k.plane.proc.Pid()
	k.term.line("control", "started again as process %d after %.1f s; it takes up the run and starts a worker", k.second, time.Since(k.at).Seconds())

	return nil
}

func stageOf(a operator.Analysis) string {
	if len(a.Runs) == 0 {
		return "none"
	}

	return a.Runs[len(a.Runs)-1].Stage
}

// show waits for the end of the run and shows what both processes wrote down of it. What had to happen once has to be there once.
func (k *killed) show(ctx context.Context) error {
	a, err := k.ended(ctx)
	if err != nil {
		return err
	}

	k.term.text("\n  timeline of %s, which processes %d and %d wrote:", k.id, k.first, k.second)

	for _, line := range timeline(&a, k.at, k.first, k.second) {
		k.term.text("    %s", line)
	}

	var effects []string
	for _, e := range a.Ledger {
		effects = append(effects, e.Effect+" "+e.Outcome)
	}

	k.term.text("  ledger: %s", strings.Join(effects, ", "))

	return once(&a)
}

func (k *killed) ended(ctx context.Context) (a operator.Analysis, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runLimit, fmt.Errorf("the run of %s does not end", k.id))
	defer cancel()

	err = poll(ctx, func() (bool, error) {
		if a, err = k.api.Get(ctx, k.id); err != nil {
			return false, err
		}

		n := len(a.Runs)

		return n > 0 && a.Runs[n-1].EndedAt != nil, nil
	})

	return a, err
}

// timeline is one line for each event, with the time since the first, and the kill between those that it came between.
func timeline(a *operator.Analysis, killed time.Time, first, second int) []string {
	var out []string

	told := false
	for _, e := range a.Timeline {
		since := e.At.Sub(a.Timeline[0].At).Seconds()
		if e.At.After(killed) && !told {
			told = true

			out = append(out, fmt.Sprintf("%6.2f s  ──── process %d is killed, process %d started ────", killed.Sub(a.Timeline[0].At).Seconds(), first, second))
		}

		words := []string{fmt.Sprintf("%6.2f s  %s", since, e.Kind)}
		if e.Epoch > 0 {
			words = append(words, fmt.Sprintf("epoch %d", e.Epoch))
		}

		for _, more := range []string{e.Detail, e.Holder.WorkerID} {
			if more != "" {
				words = append(words, more)
			}
		}

		out = append(out, strings.Join(words, ", "))
	}

	if n := len(a.Runs); n > 0 && a.Runs[n-1].EndedAt != nil {
		out = append(out, fmt.Sprintf("%6.2f s  the run has ended: %s", a.Runs[n-1].EndedAt.Sub(a.Timeline[0].At).Seconds(), a.Runs[n-1].Stage))
	}

	return out
}

// once holds what came of a killed run against the promise: one run, which ended, one outcome, each effect once.
func once(a *operator.Analysis) error {
	count := map[string]int{"runs": len(a.Runs)}

	for _, e := range a.Timeline {
		count[e.Kind]++
	}

	for _, e := range a.Ledger {
		count[e.Effect]++
	}

	kinds := []string{"runs", "submitted", "notice"}
	if a.Status == "delivered" {
		kinds = append(kinds, "dispatched", "delivered", "credit.settle")
	}

	for _, kind := range kinds {
		if count[kind] != 1 {
			return fmt.Errorf("analysis %s: %d × %s, and it should be once", a.ID, count[kind], kind)
		}
	}

	return nil
}
