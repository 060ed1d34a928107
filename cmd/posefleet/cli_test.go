package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call runs a command line and returns its code and output.
func call(environ []string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, environ, &out, &errs)
	return code, out.String(), errs.String()
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	exe, _ := os.Executable()
	good := []string{
		"POSEFLEET_CONTROL_URL=https://control", "POSEFLEET_WORKER_SECRET=" + webhook.Generate(), "POSEFLEET_DOOR_SECRET=" + webhook.Generate(),
		"POSEFLEET_STORAGE_HOSTS=a", "POSEFLEET_EXTRACTOR=" + exe,
	}
	tests := []struct {
		name    string
		environ []string
		args    []string
		code    int
		stderr  string
	}{
		{"help", nil, []string{"--help"}, 0, ""},
		{"version flag", nil, []string{"--version"}, 0, ""},
		{"version", nil, []string{"version"}, 0, ""},
		{"worker help", nil, []string{"worker", "--help"}, 0, ""},
		{"enqueue help", nil, []string{"enqueue", "--help"}, 0, ""},
		{"healthcheck help", nil, []string{"healthcheck", "--help"}, 0, ""},
		{"help command", nil, []string{"help"}, 0, ""},
		{"unknown command", nil, []string{"bogus"}, 2, "bogus"},
		{"usage hint", nil, []string{"bogus"}, 2, "(see posefleet --help)"},
		{"unknown flag", nil, []string{"worker", "--bogus"}, 2, "--bogus"},
		{"hint to the command", nil, []string{"control"}, 2, "POSEFLEET_WORKER_SECRET is required (see posefleet control --help)"},
		{"hint to a command below", nil, []string{"ledger", "study", "--bogus"}, 2, "(see posefleet ledger study --help)"},
		{"real day of no size", nil, []string{"ledger", "study", "--real", "--shipments=0"}, 2, "--shipments must be at least 1"},
		{"size of no real day", nil, []string{"ledger", "study", "--shipments=9"}, 2, "--shipments and --redis-server need --real"},
		{"database of no day", nil, []string{"ledger", "study", "--postgres=postgres://h/db"}, 2, "--postgres needs --measure or --real"},
		{"real day without Redis", nil, []string{"ledger", "study", "--real", "--redis-server=/nowhere/redis-server"}, 1, "/nowhere/redis-server"},
		{"measured twice", nil, []string{"ledger", "study", "--real", "--from=x"}, 2, "--from shows what was measured before"},
		{"missing variable", good[1:], []string{"worker"}, 2, "POSEFLEET_CONTROL_URL is required"},
		{"bad variable", append([]string{"POSEFLEET_SLOTS=x"}, good...), []string{"worker"}, 2, "POSEFLEET_SLOTS must be a whole number"},
		{"bad flag", good, []string{"worker", "--slots", "0"}, 2, "--slots must be"},
		{"flag overrides variable", append([]string{"POSEFLEET_SLOTS=x"}, good...), []string{"worker", "--slots=1", "--lock-renew-time=40s"}, 2, "--lock-renew-time must be"},
		{"bool flags", good, []string{"worker", "--no-http-enabled", "--queue-enabled=false"}, 2, "would take no work"},
		{"port taken", good, []string{"worker", "--admin-listen=256.0.0.1:1"}, 2, "--admin-listen is no address"},
		{"bad id", nil, []string{"enqueue", "an_1", "a b"}, 2, `id "a b"`},
		{"bad redis", nil, []string{"enqueue", "an_1", "--redis-url=x"}, 2, "--redis-url"},
		{"workers without an extractor", good[1:2], []string{"control", "--fleet=local", "--listen=127.0.0.1:0"}, 2, "POSEFLEET_EXTRACTOR program"},
		{"idle for no time", good[1:2], []string{"control", "--fleet-interval=0s"}, 2, "--fleet-interval must be 1s to 24h0m0s"},
		{"backup of Postgres", []string{"POSEFLEET_DATABASE_URL=postgres://u:secret@h/db"}, []string{"backup", "copy.db"}, 2, "pg_dump"},
		{"backup of nothing", nil, []string{"backup", "--database-url=sqlite:/nowhere/at/all.db", filepath.Join(t.TempDir(), "copy.db")}, 1, "back up"},
		{"backup of what", nil, []string{"backup", "--database-url=sqlite:/nowhere/at/all.db", filepath.Join(t.TempDir(), "copy.db")}, 1, "(--database-url is sqlite:/nowhere/at/all.db)"},
		{"flag given twice", nil, []string{"enqueue", "an_1", "--attempts=1", "--attempts=2"}, 2, "--attempts is given twice (see posefleet enqueue --help)"},
		{"flag and its opposite", good, []string{"worker", "--http-enabled", "--no-http-enabled"}, 2, "--http-enabled is given twice"},
		{"no attempts", nil, []string{"enqueue", "an_1", "--attempts=0"}, 2, "--attempts must be"},
		{"pause before now", nil, []string{"enqueue", "an_1", "--backoff=-1s"}, 2, "--backoff must"},
		{"health in no time", nil, []string{"healthcheck", "--timeout=0s"}, 2, "--timeout must be positive"},
		{"health of nobody by default", []string{"POSEFLEET_ADMIN_LISTEN=127.0.0.1:1"}, []string{"healthcheck"}, 1, "no answer at http://127.0.0.1:1/healthz: dial tcp 127.0.0.1:1: connect: connection refused; start a worker, or set POSEFLEET_ADMIN_LISTEN"},
		{"backup to nowhere", nil, []string{"backup"}, 2, "<path>"},
		{"health of nobody", nil, []string{"healthcheck", "--admin-listen=127.0.0.1:1"}, 1, "no answer"},
		{"health at no address", nil, []string{"healthcheck", "--admin-listen=x"}, 2, "--admin-listen is no address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call(tt.environ, tt.args...)
			if code != tt.code || !strings.Contains(stderr, tt.stderr) {
				t.Errorf("exit %d, stderr %q", code, stderr)
			}
			if tt.code != 0 && (strings.Count(stderr, "\n") != 1 || stdout != "") {
				t.Errorf("not one line on stderr: %q, stdout %q", stderr, stdout)
			}
			if tt.code == 0 && (stdout == "" || stderr != "") {
				t.Errorf("stdout %q, stderr %q", stdout, stderr)
			}
			for _, v := range good[1:3] {
				if _, secret, _ := strings.Cut(v, "whsec_"); strings.Contains(stderr, secret) {
					t.Error("a secret is on stderr")
				}
			}
		})
	}
}

// Without any argument the overview is on stderr.
func TestOverview(t *testing.T) {
	t.Parallel()
	_, help, _ := call(nil, "help")
	code, stdout, stderr := call(nil)
	if code != 2 || stdout != "" || stderr != help || !strings.Contains(stderr, "doctor") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if _, stdout, _ := call(nil, "version"); !strings.HasPrefix(stdout, "posefleet ") || strings.Contains(stdout, "unknown") {
		t.Errorf("version %q", stdout)
	}
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte("draining\n"))
		}
	}))
	t.Cleanup(s.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	environ := []string{"POSEFLEET_ADMIN_LISTEN=0.0.0.0:" + port}
	if code, _, stderr := call(environ, "healthcheck"); code != 0 {
		t.Errorf("healthy: exit %d %s", code, stderr)
	}
	if code, _, stderr := call(environ, "healthcheck", "--path=/readyz"); code != 1 || !strings.Contains(stderr, "draining") {
		t.Errorf("not ready: exit %d %s", code, stderr)
	}
}

func TestEnqueue(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	environ := []string{"POSEFLEET_REDIS_URL=" + r.URL, "POSEFLEET_PREFIX=pre"}
	code, stdout, stderr := call(environ, "enqueue", "an_1", "an_2", "an_1", "--queue=other")
	if code != 0 || stdout != "an_1 added\nan_2 added\nan_1 is there already\n" {
		t.Fatalf("exit %d %q %q", code, stdout, stderr)
	}
	q, err := queue.NewQueue(queue.Options{RedisURL: r.URL, Prefix: "pre", Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if want := "posefleet: nobody was asked whether there are such analyses: POSEFLEET_CONTROL_URL is not set\n"; stderr != want {
		t.Errorf("stderr %q", stderr)
	}
	j, err := q.Job(t.Context(), "an_2")
	if err != nil || j.Name != "analysis" || string(j.Data) != `{"v":1,"analysisId":"an_2"}` {
		t.Fatalf("%+v, %v", j, err)
	}
	failAll(t, r.URL)
	code, stdout, _ = call(environ, "enqueue", "an_1", "--queue=other")
	if code != 0 || stdout != "an_1 is there already, failed: posefleet queue retry an_1 lets it run again\n" {
		t.Errorf("exit %d %q", code, stdout)
	}
}

// failAll lets a worker fail the jobs of the queue pre:other for good, until there are none.
func failAll(t *testing.T, url string) {
	t.Helper()
	o := queue.DefaultWorkerOptions()
	o.Options = queue.Options{RedisURL: url, Prefix: "pre", Name: "other"}
	var w *queue.Worker
	var jobs atomic.Int32
	w, err := queue.NewWorker(o, func(context.Context, *queue.Job) (any, error) {
		if jobs.Add(1) == 2 {
			defer w.Drain()
		}
		return nil, queue.Unrecoverable(errors.New("unknown_analysis: There is no such analysis."))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestEnqueueWithoutRedis: the first id finds out, the others are not tried, and the sentence names the address and the variable.
func TestEnqueueWithoutRedis(t *testing.T) {
	t.Parallel()
	environ := []string{"POSEFLEET_REDIS_URL=redis://user:canary@127.0.0.1:1", "POSEFLEET_CONTROL_URL=http://127.0.0.1:1"}
	code, stdout, stderr := call(environ, "enqueue", "an_1", "an_2")
	_, said, _ := strings.Cut(stderr, "\n") // the first line is about the control plane
	want := "posefleet: enqueue an_1: Redis at 127.0.0.1:1 can't be used: the connection is refused: start Redis, or set POSEFLEET_REDIS_URL to its address"
	if code != 1 || stdout != "" || !strings.HasPrefix(said, want) || strings.Count(said, "\n") != 1 || strings.Contains(stderr, "canary") {
		t.Errorf("exit %d, %q %q", code, stdout, stderr)
	}
}

// A control plane that is configured is asked first. What it does not know is not added, nor is anything beside it; where it does not tell,
// jobs are added all the same, and the output says so.
func TestEnqueueAsks(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	plane := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer a token for looking":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/v1/analyses/an_1":
			_, _ = w.Write([]byte(`{"analysisId":"an_1","status":"queued"}`))
		case r.URL.Path == "/v1/analyses/an_9":
			_, _ = w.Write([]byte(`{"analysisId":"an_9","status":"uploading"}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"code":"unknown_analysis"}`))
		}
	}))
	t.Cleanup(plane.Close)
	other := httptest.NewServer(http.NotFoundHandler()) // a control plane of somebody else's, which has no such route
	t.Cleanup(other.Close)
	for _, tt := range []struct {
		url, token, id string
		code           int
		stdout, stderr string
	}{
		{plane.URL, "a token for looking", "nosuch", 1, "", "posefleet: enqueue: the control plane does not know nosuch; nothing was added\n"},
		{plane.URL, "a token for looking", "an_9", 1, "", "the clips of an_9 are still being uploaded: submit first, with dispatch none; nothing was added\n"},
		{plane.URL, "a token for looking", "an_1", 0, "an_1 added\n", ""},
		{plane.URL, "", "an_2", 0, "an_2 added\n", "did not tell whether there are such analyses: read analysis: status 401"},
		{other.URL, "", "an_3", 0, "an_3 added\n", "did not tell whether there are such analyses: read analysis: status 404"},
		{"http://127.0.0.1:1", "", "an_4", 0, "an_4 added\n", "connection refused"},
	} {
		environ := []string{"POSEFLEET_REDIS_URL=" + r.URL, "POSEFLEET_CONTROL_URL=" + tt.url, "POSEFLEET_READ_TOKEN=" + tt.token}
		code, stdout, stderr := call(environ, "enqueue", tt.id)
		if code != tt.code || stdout != tt.stdout || !strings.Contains(stderr, tt.stderr) || tt.stderr == "" && stderr != "" {
			t.Errorf("%+v: exit %d %q %q", tt, code, stdout, stderr)
		}
	}
}
