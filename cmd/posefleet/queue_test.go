package main

import (
	"encoding/json"
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
		{"bad URL by flag", nil, "queue stats --redis-url=http://h", 2, "--redis-url is not usable"},
		{"bad URL by variable", []string{"POSEFLEET_REDIS_URL=http://user:canary@h"}, "queue stats", 2, "POSEFLEET_REDIS_URL is not usable"},
		{"bad name", nil, "queue stats --queue=a:b", 2, "colon"},
		{"cluster without hash tag", nil, "queue stats --redis-url=redis://a,b", 2, "hash tag"},
		{"no Redis", []string{"POSEFLEET_REDIS_URL=redis://:canary@127.0.0.1:1"}, "queue stats", 1, "refused"},
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
	expect(0, "enqueue an_1 an_2 an_3")
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
	if out := expect(0, "queue clean waiting --older-than=1h"); out != "0 jobs removed from waiting\n" {
		t.Error(out)
	}
	if out := expect(0, "queue clean wait --limit 1 --json"); !strings.Contains(out, `"count":1`) {
		t.Error(out)
	}
	if out := expect(0, "queue drain"); out != "1 job removed that had not begun\n" {
		t.Error(out)
	}
}
