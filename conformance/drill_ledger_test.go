package conformance

import (
	"bytes"
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	_ "modernc.org/sqlite" // the control plane's database, read after its end

	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
)

// ledger is what became of everything in a drill.
type ledger struct {
	cfg         drillConfig
	took        time.Duration
	jobs        int
	delivered   int
	failed      map[string]int // by code
	reopened    int            // failures that a later start of the same job made void
	executions  map[int]int    // how many jobs were extracted so often
	starts      int            // all extractions
	suppressed  int            // results that came again or too late, and were told so
	interrupted int            // of the HTTP door, given back
	outcomes    map[string]int // ends of runs, as the workers log them
	doors       map[int]int    // answers of the HTTP doors
	faults      []healing
	slowest     time.Duration
	probes      int
	wrong       []string
}

// healing is how long the fleet was hit by all faults of one kind.
type healing struct {
	name        string
	times       int
	best, worst time.Duration
	median      time.Duration
	unseen      int // nothing was waiting then, so that nothing could show it
}

// isResult tells whether a message is a callback.
func isResult(m *message) bool { return strings.HasPrefix(m.Path, "/v1/results/") }

// database reads the control plane's own book.
func (d *drill) database(query string, scan func(*sql.Rows) error) error {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(d.sys.dir, "posefleet.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer db.Close()

	rows, err := db.QueryContext(d.t.Context(), query)
	if err != nil {
		return err
	}
	defer rows.Close()

	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}

	return rows.Err()
}

// undecided are the analyses whose outcome is open.
func (d *drill) undecided() []string {
	var open []string

	err := d.database(`SELECT id FROM analyses WHERE status NOT IN ('delivered', 'failed')`, func(r *sql.Rows) error {
		var id string
		err := r.Scan(&id)
		open = append(open, id)

		return err
	})
	if err != nil {
		return []string{"unknown: " + err.Error()}
	}

	return open
}

// ledger closes the books.
func (d *drill) ledger() *ledger {
	l := &ledger{
		cfg: d.cfg, took: time.Since(d.begin), failed: map[string]int{}, executions: map[int]int{}, outcomes: map[string]int{},
		doors: d.load.refusals, slowest: d.watch.slowest, probes: d.watch.probes,
	}

	d.countAnalyses(l)
	d.countExecutions(l)
	d.countMessages(l)
	d.checkJobs(l)
	d.readLogs(l)
	d.checkSchedules(l)
	d.probeAfter(l)

	l.wrong = append(l.wrong, d.watch.wrong...)

	return l
}

func (l *ledger) fault(format string, args ...any) {
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

// countAnalyses: every job has exactly one outcome, which counted once, and had its effects once.
func (d *drill) countAnalyses(l *ledger) {
	err := d.database(`SELECT a.id, a.status, a.error_code,
		(SELECT count(*) FROM webhook_ids w WHERE w.analysis_id = a.id AND w.decision = 'accepted' AND w.id LIKE 'res\_%' ESCAPE '\'),
		(SELECT count(*) FROM events e WHERE e.analysis_id = a.id AND e.kind = 'reopened'),
		(SELECT count(*) FROM events e WHERE e.analysis_id = a.id AND e.kind = 'delivered') FROM analyses a`,
		func(r *sql.Rows) error {
			var id, status, code string

			var accepted, reopened, deliveries int

			if err := r.Scan(&id, &status, &code, &accepted, &reopened, &deliveries); err != nil {
				return err
			}

			l.jobs++

			switch status {
			case "delivered":
				l.delivered++
			case "failed":
				l.failed[code]++
				d.checkReason(l, id, code)
			default:
				l.fault("I1: %s is stuck as %s", id, status)

				return nil
			}

			// A failure that is stored while the queue does not hear of it any more is followed by a later start of the same job, which
			// takes the analysis up again: one more outcome, the former one being void.
			l.reopened += reopened
			if accepted != 1+reopened || deliveries > 1 {
				l.fault("%s: %d results counted, %d of them void, %d deliveries", id, accepted, reopened, deliveries)
			}

			return nil
		})
	if err != nil {
		l.fault("the control plane's database: %v", err)
	}

	if l.jobs != d.cfg.jobs {
		l.fault("%d analyses of %d jobs", l.jobs, d.cfg.jobs)
	}
}

// checkReason: jobs fail for what is wrong with them; a sound one only because its workers died over it again and again.
func (d *drill) checkReason(l *ledger, id, code string) {
	hard := []string{
		string(protocol.CodeLockLost), string(protocol.CodeExtractorCrashed), string(protocol.CodeInputUnreachable),
		string(protocol.CodeControlUnreachable), string(protocol.CodeClaimLost), string(protocol.CodeClaimRefused),
	}

	switch k := kindOf(id); {
	case k == kindBroken && code == string(protocol.CodeNoVideoStream):
	case slices.Contains(hard, code):
	default:
		l.fault("%s failed as %s", id, code)
	}
}

func (d *drill) countExecutions(l *ledger) {
	if *drillReal {
		return // the real extractor keeps no journal
	}

	text, err := os.ReadFile(d.journal)
	if err != nil {
		l.fault("journal: %v", err)

		return
	}

	perJob := map[string]int{}

	for line := range bytes.Lines(text) {
		if id, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("start ")); ok {
			perJob[string(id)]++
			l.starts++
		}
	}

	for n := range d.cfg.jobs {
		l.executions[perJob[jobID(d.cfg.seed, n, d.cfg.door)]]++
	}
}

// countMessages: at least one callback for each analysis, and the same bytes under the same id (invariant 2).
func (d *drill) countMessages(l *ledger) {
	bodies, told := map[string][]byte{}, map[string]bool{}

	for _, m := range d.sys.front.record() {
		if !isResult(&m) {
			continue
		}

		if word := d.leak(string(m.Body)); word != "" {
			l.fault("I6: a callback shows %s", word)
		}

		if former, again := bodies[m.WebhookID]; again && !bytes.Equal(former, m.Body) {
			l.fault("I2: %s came with two bodies", m.WebhookID)
		}

		bodies[m.WebhookID] = m.Body

		if m.resultType() == protocol.ResultInterrupted {
			l.interrupted++

			continue
		}

		told[strings.TrimPrefix(m.Path, "/v1/results/")] = true

		if m.Status == http.StatusConflict || m.Status == http.StatusGone || m.Status == http.StatusOK && alreadyDelivered(m) {
			l.suppressed++
		}
	}

	for n := range d.cfg.jobs {
		if id := jobID(d.cfg.seed, n, d.cfg.door); !told[id] {
			l.fault("I2: nobody was told about %s", id)
		}
	}
}

// checkJobs: every job of the queue ended in one state, and shows nothing secret (invariants 1 and 6).
func (d *drill) checkJobs(l *ledger) {
	ends := map[string]string{}

	for _, state := range []queue.State{queue.StateCompleted, queue.StateFailed} {
		jobs, err := d.sys.queue.Jobs(d.t.Context(), state, 0, int64(d.cfg.jobs)+1)
		if err != nil {
			l.fault("jobs that are %s: %v", state, err)
		}

		for _, j := range jobs {
			if former := ends[j.ID]; former != "" {
				l.fault("I1: job %s is %s and %s", j.ID, former, state)
			}

			ends[j.ID] = string(state)

			if word := d.leak(j.FailedReason + strings.Join(j.Stacktrace, "\n")); word != "" {
				l.fault("I6: job %s shows %s", j.ID, word)
			}
		}
	}

	for n := range d.cfg.jobs {
		if id := jobID(d.cfg.seed, n, d.cfg.door); ends[id] == "" && !d.load.wasPushed(id) {
			l.fault("I1: job %s is not in the queue any more", id)
		}
	}
}

// readLogs counts how runs ended, and looks for secrets (invariant 6).
func (d *drill) readLogs(l *ledger) {
	for _, text := range d.sys.logs {
		if word := d.leak(text.String()); word != "" {
			l.fault("I6: a log shows %s", word)
		}

		for line := range strings.Lines(text.String()) {
			var entry struct{ Msg, Outcome, Level, Value string }
			if json.Unmarshal([]byte(line), &entry) != nil {
				continue
			}

			switch entry.Msg {
			case "job ended":
				l.outcomes[entry.Outcome]++
			case "panic":
				l.fault("a worker panicked: %s", entry.Value)
			}
		}
	}
}

// checkSchedules: how long it took from the end of each fault until whoever was hit took the next job (invariant 5).
func (d *drill) checkSchedules(l *ledger) {
	kinds := map[string][]time.Duration{}
	unseen := map[string]int{}

	for _, e := range d.past {
		healed := d.healedAt(e)

		for _, m := range e.hit {
			took, err := d.recovered(m, healed)
			name := e.trouble.name

			switch {
			case err != nil && d.cfg.recover-d.watch.idleBetween(healed, healed.Add(d.cfg.recover)) >= d.cfg.recover && d.lasted(healed):
				l.fault("I5: %s, after %q at %v: %v", m.name, name, e.at.Round(time.Millisecond), err)
			case err != nil:
				unseen[name]++
			case took > d.cfg.recover:
				l.fault("I5: %s took its next job %v after %q", m.name, took.Round(time.Millisecond), name)

				fallthrough
			default:
				kinds[name] = append(kinds[name], took)
			}
		}
	}

	for _, k := range troubles() {
		h := healing{name: k.name, times: len(kinds[k.name]), unseen: unseen[k.name]}
		if all := slices.Sorted(slices.Values(kinds[k.name])); len(all) > 0 {
			h.best, h.median, h.worst = all[0], all[len(all)/2], all[len(all)-1]
		}

		l.faults = append(l.faults, h)
	}
}

// lasted tells whether the drill was still watched when a worker must have taken a job at last.
func (d *drill) lasted(healed time.Time) bool {
	n := len(d.watch.samples)

	return n > 0 && d.watch.samples[n-1].at.After(healed.Add(d.cfg.recover))
}

// healedAt is when a fault and all that went on beside it was over.
func (d *drill) healedAt(e *event) time.Time {
	over := e.healed

	for again := true; again; {
		again = false

		for _, o := range d.past {
			if o.began.Before(over) && o.healed.After(over) {
				over, again = o.healed, true
			}
		}
	}

	return over
}

func (d *drill) recovered(m *member, healed time.Time) (time.Duration, error) {
	at, err := d.watch.firstTake(m.allPids(), healed)
	if err != nil {
		return 0, err
	}

	// Nothing to take is nobody's fault: the time counts from when there was something, if the next fault did not come first.
	return max(0, at.Sub(healed)-d.watch.idleBetween(healed, at)), nil
}

// probeAfter: a fresh job for each worker's place, with no restart, when all is over (invariant 5).
func (d *drill) probeAfter(l *ledger) {
	ids := []string{"probe-1", "probe-2", "probe-3"}
	for _, id := range ids {
		d.sys.prepare(id, d.film, wishes())
		d.sys.add(id, 1)
	}

	for _, id := range ids {
		if job := d.sys.awaitJob(id); job.FailedReason != "" {
			l.fault("I5: the probe after the drill fails: %s", job.FailedReason)
		}
	}
}

// String is the ledger as text.
func (l *ledger) String() string {
	var b strings.Builder

	fmt.Fprintf(&b, "Drill of seed %d: %d jobs in %v, %d faults.\n\n", l.cfg.seed, l.jobs, l.took.Round(time.Second), l.events())

	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name string, value any) { fmt.Fprintf(w, "%s\t%v\n", name, value) }

	row("jobs in", l.jobs)
	row("delivered once", l.delivered)

	for _, code := range slices.Sorted(maps.Keys(l.failed)) {
		row("failed, "+code, l.failed[code])
	}

	row("lost, stuck, doubled, or otherwise wrong", len(l.wrong))
	row("failures made void by a later start", l.reopened)
	row("results that came again or too late", l.suppressed)
	row("given back", l.outcomes["given_back"])
	row("runs stopped because their lock was gone", l.outcomes["lost_lock"])
	row("interrupted at the HTTP door", l.interrupted)
	row("extractions", l.starts)

	for _, n := range slices.Sorted(maps.Keys(l.executions)) {
		row(fmt.Sprintf("jobs extracted %d times", n), l.executions[n])
	}

	row("slowest of "+strconv.Itoa(l.probes)+" probes of the admin ports", l.slowest.Round(time.Millisecond))

	for _, code := range slices.Sorted(maps.Keys(l.doors)) {
		row(fmt.Sprintf("answers %d of the HTTP doors", code), l.doors[code])
	}

	_ = w.Flush() // into memory

	b.WriteString("\nFrom the end of a fault to the next job of each worker that was hit:\n\n")
	l.writeFaults(&b)

	for _, wrong := range l.wrong {
		fmt.Fprintf(&b, "\nWRONG: %s", wrong)
	}

	return b.String()
}

func (l *ledger) events() int {
	n := 0
	for _, h := range l.faults {
		n += h.times + h.unseen
	}

	return n
}

func (l *ledger) writeFaults(b *strings.Builder) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\tseen\tmedian\tworst")

	for _, h := range slices.SortedFunc(slices.Values(l.faults), func(a, b healing) int { return cmp.Compare(b.worst, a.worst) }) {
		fmt.Fprintf(w, "%s\t%d\t%v\t%v\n", h.name, h.times, h.median.Round(10*time.Millisecond), h.worst.Round(10*time.Millisecond))
	}

	_ = w.Flush() // into memory
}

// write leaves ledger and picture in the folder that was asked for.
func (d *drill) write(l *ledger) {
	if err := os.MkdirAll(*drillOut, 0o755); err != nil {
		d.t.Fatal(err)
	}

	base := filepath.Join(*drillOut, fmt.Sprintf("drill-%d", d.cfg.seed))
	for name, text := range map[string]string{base + ".txt": l.String() + "\n", base + ".svg": d.picture()} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
}
