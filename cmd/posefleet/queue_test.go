package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/redistest"
)

func TestQueueUsage(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name    string
		environ []string
		args    string
		code    int
		stderr  string
	}{
		{"help", nil, "queue --help", 0, ""},
		{"help of one", nil, "queue clean --help", 0, ""},
		{"nothing", nil, "queue", 2, "expected one of"},
		{"no id", nil, "queue get", 2, "<id>"},
		{"state", nil, "queue clean done", 2, `no such state: "done"`},
		{"state that can't be cleaned", nil, "queue clean waiting-children", 2, "can't be cleaned"},
		{"age", nil, "queue clean failed --older-than=-1s", 2, "--older-than"},
		{"limit", nil, "queue list failed --limit=0", 2, "--limit"},
		{"retry of nothing", nil, "queue retry", 2, "--all-failed"},
		{"retry of both", nil, "queue retry a --all-failed", 2, "--all-failed"},
		{"promote of nothing", nil, "queue promote", 2, "--all"},
		{"negative priority", nil, "queue prioritize a -- -1", 2, "<priority>"},
		{"obliterate by mistake", nil, "queue obliterate", 2, "--yes"},
		{"clean by mistake", nil, "queue clean failed", 2, "--yes"},
		{"drain by mistake", nil, "queue drain", 2, "--yes"},
		{"orphans by mistake", nil, "queue orphans", 2, "--yes"},
		{"help of a group", nil, "queue schedulers --help", 0, ""},
		{"help of a verb", nil, "queue flow add --help", 0, ""},
		{"scheduler of nothing", nil, "queue schedulers set s", 2, "either every or a pattern"},
		{"scheduler of nonsense", nil, "queue schedulers set s --every=1h --data={", 2, "--data is no JSON"},
		{"limits of nothing", nil, "queue limits set", 2, "--concurrency"},
		{"rate", nil, "queue limits set --rate=100", 2, "100/1m"},
		{"clear of nothing", nil, "queue limits clear", 2, "--hold"},
		{"no file", nil, "queue flow add /nowhere/f.json", 2, "no such file"},
		{"wait for nobody", nil, "queue wait", 2, "<id>"},
		{"negative time", nil, "queue wait a --timeout=-1s", 2, "--timeout"},
		{"no minutes", nil, "queue metrics --minutes=0", 2, "--minutes"},
		{"bad URL by flag", nil, "queue stats --redis-url=http://h", 2, "--redis-url is not usable"},
		{"bad URL by variable", []string{"POSEFLEET_REDIS_URL=http://user:canary@h"}, "queue stats", 2, "POSEFLEET_REDIS_URL is not usable"},
		{"bad name", nil, "queue stats --queue=a:b", 2, "colon"},
		{"cluster without hash tag", nil, "queue stats --redis-url=redis://a,b", 2, "hash tag"},
		{"flag twice", nil, "queue list failed --limit=1 --limit=2", 2, "--limit is given twice"},
		{"no Redis by flag", nil, "queue stats --redis-url=redis://:canary@127.0.0.1:1", 1, "Redis at 127.0.0.1:1 can't be used: the connection is refused: start Redis, or set --redis-url to its address"},
		{"no Redis by sentinels", []string{"POSEFLEET_REDIS_URL=redis+sentinel://:canary@127.0.0.1:1/m"}, "queue get a", 1, "Redis at 127.0.0.1:1 can't be used"},
		{"no such host", []string{"POSEFLEET_REDIS_URL=redis://:canary@nowhere.invalid"}, "queue pause", 1, "set POSEFLEET_REDIS_URL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call(tt.environ, strings.Fields(tt.args)...)
			if code != tt.code || !strings.Contains(stderr, tt.stderr) || strings.Contains(stderr, "canary") {
				t.Errorf("exit %d, stderr %q", code, stderr)
			}
			if lines := strings.Count(stderr, "\n"); code != 0 && (lines != 1 || stdout != "") {
				t.Errorf("not one line on stderr: %q, stdout %q", stderr, stdout)
			}
		})
	}
}

// TestQueueWithoutRedis: each command says in one line where Redis was looked for and which variable to set.
func TestQueueWithoutRedis(t *testing.T) {
	t.Parallel()

	for _, args := range []string{
		"stats", "list failed", "get a", "logs a", "workers", "events", "pause", "resume", "retry a", "retry --all-failed", "remove a", "clean failed --yes",
		"drain --yes", "wait a", "flow get a", "metrics", "limits", "promote a", "delay a 1s", "prioritize a 1", "schedulers", "orphans --yes", "obliterate --yes",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := call([]string{"POSEFLEET_REDIS_URL=redis://:canary@127.0.0.1:1"}, append([]string{"queue"}, strings.Fields(args)...)...)
			want := "posefleet: Redis at 127.0.0.1:1 can't be used: the connection is refused: start Redis, or set POSEFLEET_REDIS_URL to its address"
			if code != 1 || !strings.HasPrefix(stderr, want) || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "canary") {
				t.Errorf("exit %d, stderr %q", code, stderr)
			}
		})
	}
}

// Variables and flags name the same queue as those of enqueue, and what can't be done is exit 1 with one line.
func TestQueueCommands(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	environ := []string{"POSEFLEET_REDIS_URL=" + r.URL, "POSEFLEET_PREFIX=pre", "POSEFLEET_QUEUE=other"}
	expect := func(want int, args string) string {
		t.Helper()
		code, stdout, stderr := call(environ, strings.Fields(args)...)
		if lines := strings.Count(stderr, "\n"); code != want || lines != min(want, 1) {
			t.Fatalf("%s: exit %d, %q", args, code, stderr)
		}
		return stdout + stderr
	}
	if code, _, stderr := call(environ, "enqueue", "an_1", "an_2", "an_3"); code != 0 {
		t.Fatalf("enqueue: exit %d, %q", code, stderr)
	}
	var doc struct {
		Queue  string `json:"queue"`
		Counts struct {
			Waiting int `json:"waiting"`
		} `json:"counts"`
	}
	if err := json.Unmarshal([]byte(expect(0, "queue stats --json")), &doc); err != nil || doc.Queue != "other" || doc.Counts.Waiting != 3 {
		t.Errorf("%+v, %v", doc, err)
	}
	if err := json.Unmarshal([]byte(expect(0, "queue --queue=empty --json stats")), &doc); err != nil || doc.Queue != "empty" || doc.Counts.Waiting != 0 {
		t.Errorf("%+v, %v", doc, err)
	}
	if out := expect(1, "queue get an_9"); out != "posefleet: job an_9 does not exist\n" {
		t.Error(out)
	}
	if out := expect(1, "queue retry an_1 an_9"); out != "0 jobs retried\nposefleet: job an_1 is waiting; job an_9 does not exist\n" {
		t.Error(out)
	}
	for _, args := range []string{"queue list waiting", "queue workers", "queue logs an_1", "queue pause", "queue resume", "queue retry --all-failed"} {
		expect(0, args)
	}
	if out := expect(0, "queue remove an_1"); out != "an_1 removed\n1 job removed\n" {
		t.Error(out)
	}
	if out := expect(0, "queue clean waiting --older-than=1h --yes"); out != "0 jobs removed from waiting\n" {
		t.Error(out)
	}
	if out := expect(0, "queue clean wait --limit 1 -y --json"); !strings.Contains(out, `"count":1`) {
		t.Error(out)
	}
	if out := expect(0, "queue drain --yes"); out != "1 job removed that had not begun\n" {
		t.Error(out)
	}
	tree := filepath.Join(t.TempDir(), "flow.json")
	if err := os.WriteFile(tree, []byte(`{"name":"p","opts":{"jobId":"p"},"children":[{"name":"c","opts":{"jobId":"c"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		code       int
		args, want string
	}{
		{0, "queue flow add " + tree, "other:p added\n  other:c added\n"},
		{0, "queue flow get p", "waiting-children  other:p  p\n  waiting  other:c  c\n"},
		{1, "queue wait p --timeout=10ms", "job p has not finished in time"},
		{0, "queue schedulers set nightly --every=24h --job=sweep", "scheduler nightly is set"},
		{0, "queue schedulers", "every 24h0m0s"},
		{0, "queue schedulers get nightly", "sweep"},
		{0, "queue schedulers remove nightly", "makes no more jobs"},
		{1, "queue schedulers remove nightly", "scheduler nightly does not exist"},
		{0, "queue limits set --concurrency=4 --rate=100/1m", "100 in 1m0s"},
		{0, "queue limits clear --rate", "no limit"},
		{0, "queue limits --json", `"concurrency":4`},
		{0, "queue metrics", "no metrics"},
		{0, "queue events --after=0 --limit=1", "go on with --after="},
		{0, "queue orphans --yes", "0 jobs"},
		{0, "queue obliterate --yes", "is deleted"},
	} {
		if out := expect(step.code, step.args); !strings.Contains(out, step.want) {
			t.Errorf("%s: %q", step.args, out)
		}
	}
}

// A person is asked before anything is deleted that was not named, and all but a yes is a no.
func TestAsk(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]error{
		"y\n": nil, " YES \n": nil, "\n": errNotConfirmed, "n\n": errNotConfirmed, "": errNotConfirmed, "yep\n": errNotConfirmed,
	} {
		var stderr strings.Builder
		h := &host{stdin: strings.NewReader(answer), stderr: &stderr}
		if err := h.ask("delete it"); !errors.Is(err, want) || stderr.String() != "delete it? [y/N] " {
			t.Errorf("%q: %v, %q", answer, err, stderr.String())
		}
		if h.canAsk() {
			t.Error("a text is taken for a terminal")
		}
	}
}
