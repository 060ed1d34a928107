package pipeline

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/store/storetest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
)

// record writes testdata/runs-LABEL.json: what is kept of each kind of run by the present code. Each release adds a file and none is
// ever written again: go test ./control/pipeline -run TestRecordRuns -record 2
var record = flag.String("record", "", "label of the version to record runs of")

const replayID = "an_1"

// kept are the rows of one run, as DBOS has them.
type kept struct {
	Workflow map[string]any
	Input    map[string]any
	Steps    []map[string]any
}

// bench is a pipeline on a store of its own.
type bench struct {
	store.Store
	*Pipeline
	url string

	mu    sync.Mutex
	begun []string
}

func newBench(t *testing.T, dir string, change func(*Config)) *bench {
	t.Helper()
	b := &bench{url: "sqlite:" + filepath.Join(dir, "test.db")}
	var err error
	if b.Store, err = store.Open(t.Context(), b.url, store.Options{}); err != nil {
		t.Fatal(err)
	}
	cfg := Config{DatabaseURL: b.url, Store: b.Store, Look: 20 * time.Millisecond, Poll: 10 * time.Millisecond, Point: func(place string) {
		if step, ok := strings.CutSuffix(place, ":begin"); ok {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.begun = append(b.begun, step)
		}
	}}
	if change != nil {
		change(&cfg)
	}
	if b.Pipeline, err = Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Pipeline.Run(ctx) }() // ends with cancel
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := b.Pipeline.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Store.Close(); err != nil {
			t.Error(err)
		}
	})

	return b
}

// submit makes an analysis with a run that the outbox is to begin.
func (b *bench) submit(t *testing.T, reason store.RunReason) {
	t.Helper()
	n := storetest.NewAnalysis(replayID)
	if _, _, err := b.CreateAnalysis(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Submit(t.Context(), store.Submission{ID: replayID, Clips: n.Clips, Run: reason}); err != nil {
		t.Fatal(err)
	}
}

// begin carries the intent out.
func (b *bench) begin(t *testing.T) {
	t.Helper()
	entries, err := b.Outbox(t.Context(), 1, store.OutboxRun)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	if err := b.Start(t.Context(), entries[0]); err != nil {
		t.Fatal(err)
	}
}

// deliver is the worker.
func (b *bench) deliver(t *testing.T) {
	t.Helper()
	g, err := b.Redeem(t.Context(), replayID, storetest.QueueHolder("w1", replayID, 1), store.JobSeen{}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	l := storetest.LeaseOf(g)
	art := storetest.Artifact(l)
	if err := b.GrantArtifact(t.Context(), l, art); err != nil {
		t.Fatal(err)
	}
	_, err = b.RecordResult(t.Context(), storetest.Post(l, protocol.ResultCompleted, func(d *protocol.ResultData) {
		d.Artifact, d.Model, d.Clips = &protocol.Artifact{Key: art.Key, Size: art.Size, SHA256: art.SHA256}, art.Model, art.Clips
	}))
	if err != nil {
		t.Fatal(err)
	}
}

// ended waits for the end of the run.
func (b *bench) ended(t *testing.T) store.Run {
	t.Helper()
	var r store.Run
	wait.For(t, 2*time.Minute, func() bool {
		var err error
		r, err = b.Store.Run(t.Context(), store.RunKey{AnalysisID: replayID})

		return err == nil && !r.EndedAt.IsZero()
	}, "the run does not end")

	return r
}

// state is how DBOS says that the run stands.
func (b *bench) state(t *testing.T) dbos.WorkflowStatusType {
	t.Helper()
	states, err := b.engine.states([]store.Run{{AnalysisID: replayID}})
	if err != nil {
		t.Fatal(err)
	}

	return states[workflowID(store.RunKey{AnalysisID: replayID}, 0)]
}

// nap is a fleet that is ready at the third question.
type nap struct{ asked int }

// Wake implements Waker.
func (n *nap) Wake(context.Context) (bool, time.Duration, error) {
	n.asked++

	return n.asked > 2, time.Millisecond, nil
}

// lostOnce says once that the analysis is nowhere.
func lostOnce() func(context.Context, store.Run) (bool, error) {
	lost := true

	return func(context.Context, store.Run) (bool, error) {
		defer func() { lost = false }()

		return !lost, nil
	}
}

// kinds are the kinds of runs that are recorded.
func kinds() map[string]func(*Config) {
	nothing := func(context.Context, store.Analysis) error { return nil }

	return map[string]func(*Config){
		"delivered": func(c *Config) { c.Report = nothing },
		"refused": func(c *Config) {
			c.Precheck = func(context.Context, store.Analysis) error {
				return &Refusal{Code: protocol.CodeInvalidMedia, Message: "not a clip"}
			}
		},
		"woken":    func(c *Config) { c.Waker = &nap{} },
		"lost":     func(c *Config) { c.Alive = lostOnce() },
		"followed": nil,
		"optional": func(c *Config) {
			c.Optional = []Optional{{ID: "preview", Before: stepDispatch, On: true, Run: nothing}}
		},
	}
}

func reasonOf(kind string) store.RunReason {
	if kind == "followed" {
		return store.RunFollowed
	}

	return store.RunSubmitted
}

// recordRun plays a run of the kind and reads what is kept of it.
func recordRun(t *testing.T, kind string) kept {
	t.Helper()
	b := newBench(t, t.TempDir(), kinds()[kind])
	b.submit(t, reasonOf(kind))
	b.begin(t)
	if kind != "refused" {
		wait.For(t, 2*time.Minute, func() bool {
			r, err := b.Store.Run(t.Context(), store.RunKey{AnalysisID: replayID})

			return err == nil && (r.Stage == store.StageDispatched || kind == "followed") && (r.Retries == 1 || kind != "lost")
		}, "the run does not dispatch")
		b.deliver(t)
	}
	b.ended(t)
	wait.For(t, 2*time.Minute, func() bool { return b.state(t) == dbos.WorkflowStatusSuccess }, "the run is %s", b.state(t))
	db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(b.url, "sqlite:")+sqliteSuffix+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()

	return kept{
		Workflow: rowsOf(t, db, "workflow_status", "workflow_uuid")[0],
		Input:    rowsOf(t, db, "workflow_input", "workflow_uuid")[0],
		Steps:    rowsOf(t, db, "operation_outputs", "function_id"),
	}
}

func rowsOf(t *testing.T, db *sql.DB, table, order string) []map[string]any {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT * FROM `+table+` ORDER BY `+order)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	for rows.Next() {
		values := make([]any, len(names))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			t.Fatal(err)
		}
		row := map[string]any{}
		for i, name := range names {
			switch v := (*values[i].(*any)).(type) {
			case nil:
			case []byte:
				row[name] = string(v)
			default:
				row[name] = v
			}
		}
		all = append(all, row)
	}
	if rows.Err() != nil || len(all) == 0 {
		t.Fatal(rows.Err(), len(all))
	}

	return all
}

// TestRecordRuns writes the runs of the present version, if asked to; else it only shows that this could be done.
func TestRecordRuns(t *testing.T) {
	t.Parallel()
	dir := "testdata"
	if *record == "" {
		dir = t.TempDir()
	}
	all := map[string]kept{}
	for kind := range kinds() {
		all[kind] = recordRun(t, kind)
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "runs-"+*record+".json")
	if _, err := os.Stat(path); err == nil {
		t.Fatalf("%s is there: what a version kept does not change", path)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// recorded reads the runs of all versions.
func recorded(t *testing.T) map[string]kept {
	t.Helper()
	files, err := filepath.Glob("testdata/runs-*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no recorded runs", err)
	}
	out := map[string]kept{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var all map[string]kept
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.UseNumber()
		if err := d.Decode(&all); err != nil {
			t.Fatal(err)
		}
		for kind, k := range all {
			out[filepath.Base(f)+" "+kind] = k
		}
	}

	return out
}

// replay lets the present code take up what is kept, with the round decided as it was, and returns the steps that it did itself.
func replay(t *testing.T, name string, k kept) (*bench, []string) {
	t.Helper()
	kind := name[strings.LastIndexByte(name, ' ')+1:]
	dir := t.TempDir()
	t.Run("before", func(t *testing.T) { // the tables, and the state of the world
		b := newBench(t, dir, nil)
		b.submit(t, reasonOf(kind))
		if kind == "refused" {
			if _, err := b.FailRun(t.Context(), store.RunKey{AnalysisID: replayID}, protocol.CodeInvalidMedia, "not a clip"); err != nil {
				t.Fatal(err)
			}
		} else {
			b.deliver(t)
		}
	})
	db, err := sql.Open("sqlite", filepath.Join(dir, "test.db")+sqliteSuffix)
	if err != nil {
		t.Fatal(err)
	}
	workflow := maps.Clone(k.Workflow)
	for _, column := range []string{"output", "error", "owner_xid", "completed_at"} {
		delete(workflow, column)
	}
	workflow["status"] = string(dbos.WorkflowStatusPending)
	put(t, db, "workflow_status", workflow)
	put(t, db, "workflow_input", k.Input)
	for _, step := range k.Steps {
		put(t, db, "operation_outputs", step)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, dir, kinds()[kind])
	wait.For(t, 2*time.Minute, func() bool {
		s := b.state(t)

		return s == dbos.WorkflowStatusSuccess || s == dbos.WorkflowStatusError
	}, "the run is not taken up")
	b.mu.Lock()
	defer b.mu.Unlock()

	return b, slices.Clone(b.begun)
}

func put(t *testing.T, db *sql.DB, table string, row map[string]any) {
	t.Helper()
	var names, marks []string
	var args []any
	for name, v := range row {
		if n, ok := v.(json.Number); ok {
			i, err := n.Int64()
			if err != nil {
				t.Fatal(err)
			}
			v = i
		}
		names, args = append(names, name), append(args, v)
		marks = append(marks, "?")
	}
	query := fmt.Sprintf(`INSERT INTO %s (%s) VALUES (%s)`, table, strings.Join(names, ", "), strings.Join(marks, ", "))
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

// TestReplay: the present code takes up the runs of each version that there was, cut off after each of their steps, and brings them to
// their end. Of a whole one it does nothing once more.
func TestReplay(t *testing.T) {
	t.Parallel()
	for name, k := range recorded(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := range len(k.Steps) + 1 {
				b, did := replay(t, name, kept{Workflow: k.Workflow, Input: k.Input, Steps: k.Steps[:n]})
				if s := b.state(t); s != dbos.WorkflowStatusSuccess {
					t.Errorf("cut after %d of %d steps: %s", n, len(k.Steps), s)
				}
				if n == len(k.Steps) {
					if len(did) > 0 {
						t.Errorf("of a whole run it did %v again", did)
					}
				} else if r := b.ended(t); r.Stage != store.StageNotified {
					t.Errorf("cut after %d steps: %+v", n, r)
				}
			}
		})
	}
}

// TestReplayFindsDivergence: if a step had been renamed, or two changed places, the runs would not be taken up.
func TestReplayFindsDivergence(t *testing.T) {
	t.Parallel()
	all := recorded(t)
	for name, change := range map[string]func([]map[string]any){
		"renamed": func(s []map[string]any) { s[2] = with(s[2], "function_name", "preflight") },
		"reordered": func(s []map[string]any) {
			s[1], s[2] = with(s[1], "function_name", s[2]["function_name"]), with(s[2], "function_name", s[1]["function_name"])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const kind = "runs-1.json delivered"
			k := kept{Workflow: all[kind].Workflow, Input: all[kind].Input, Steps: slices.Clone(all[kind].Steps)}
			change(k.Steps)
			if b, _ := replay(t, kind, k); b.state(t) != dbos.WorkflowStatusError {
				t.Errorf("%s: nobody noticed", b.state(t))
			}
		})
	}
}

func with(row map[string]any, name string, v any) map[string]any {
	row = maps.Clone(row)
	row[name] = v

	return row
}
