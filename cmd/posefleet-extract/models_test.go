package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/models/modeltest"
)

// ownModels is a folder with a model that can be used and one that can't.
func ownModels(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	modeltest.Write(t, dir, "good", modeltest.RTMPose(26, false), map[string]any{"skeleton": "halpe26"})
	modeltest.Write(t, dir, "spoilt", modeltest.YOLOPose(), map[string]any{"sha256": strings.Repeat("0", 64)})
	return dir
}

func TestModelsListsOwnOnes(t *testing.T) {
	t.Parallel()
	need.Assets(t)
	r := execute(t, t.TempDir(), "models", "--models", ownModels(t))
	for _, want := range []string{"assets: ", "heavy ", "good ", "halpe26", "rtmpose", "spoilt ", strings.Repeat("0", 64)} {
		if r.code != exitDone || !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in %+v", want, r)
		}
	}
}

// check runs each model for real and says of one that can't be used why.
func TestModelsCheck(t *testing.T) {
	t.Parallel()
	need.Assets(t)
	dir := ownModels(t)
	r := execute(t, t.TempDir(), "models", "check", "lite", "good", "spoilt", "--models", dir)
	if r.code != exitFailed || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "1 of 3") {
		t.Errorf("%+v", r)
	}
	for _, want := range []string{"lite: ok, onnxruntime ", "good: ok, onnxruntime ", "input f32[1 3 256 192]", " ms", "spoilt: can't be used: ", "wrong checksum"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in %s", want, r.stdout)
		}
	}
	if r := execute(t, t.TempDir(), "models", "check", "good", "--models", dir); r.code != exitDone || strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("%+v", r)
	}
	if r := execute(t, t.TempDir(), "models", "check", "nobody", "--models", dir); r.code != exitUsage || !strings.Contains(r.stderr, "nobody") {
		t.Errorf("%+v", r)
	}
}

// explain prints the manifest as it is understood, and the reason.
func TestModelsExplain(t *testing.T) {
	t.Parallel()
	need.Assets(t)
	dir := ownModels(t)
	r := execute(t, t.TempDir(), "models", "explain", filepath.Join(dir, "good"))
	for _, want := range []string{"family", "CC0-1.0", "left_big_toe", `"mean":[123.675,116.28,103.53]`, `"padding":1.25`, "detector", "runtime", "usable     yes"} {
		if r.code != exitDone || !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in %+v", want, r)
		}
	}
	r = execute(t, t.TempDir(), "models", "explain", filepath.Join(dir, "spoilt"))
	if r.code != exitFailed || !strings.Contains(r.stdout, "usable     no: ") || !strings.Contains(r.stdout, "wrong checksum") {
		t.Errorf("%+v", r)
	}
}

// The variable's folder is known to the program, a path needs none, and a model that can't be used leaves no file.
func TestClipWithAnOwnModel(t *testing.T) {
	t.Parallel()
	need.Assets(t)
	dir, models := t.TempDir(), ownModels(t)
	testClip(t, filepath.Join(dir, "c.mp4"), "0.4")
	cmd := program(t.Context(), dir, "c.mp4", "-o", "a.json")
	cmd.Env = append(cmd.Env, "POSEFLEET_MODELS="+models, "POSEFLEET_MODEL=good")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "a.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d pose.Document
	if err := json.Unmarshal(text, &d); err != nil || d.Model.Name != "good" || d.Skeleton.Name != "halpe26" || len(d.Clips[0].Frames) != 10 {
		t.Errorf("%+v, %v", d.Model, err)
	}
	if r := execute(t, dir, "c.mp4", "--model", filepath.Join(models, "good", "good.onnx"), "-o", "b.json"); r.code != exitDone {
		t.Errorf("%+v", r)
	}
	r := execute(t, dir, "c.mp4", "--model", filepath.Join(models, "spoilt"), "-o", "c.json")
	if _, err := os.Stat(filepath.Join(dir, "c.json")); r.code != exitFailed || !strings.Contains(r.stderr, "wrong checksum") || !os.IsNotExist(err) {
		t.Errorf("%+v, %v", r, err)
	}
	for _, wrong := range []string{"bad", filepath.Join(models, "gone")} {
		if r := execute(t, dir, "c.mp4", "--model", wrong); r.code != exitUsage || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: %+v", wrong, r)
		}
	}
}

// A job of a worker may ask for an own model by its name; the answer then names what made the points.
func TestServeDoesAJobWithAnOwnModel(t *testing.T) {
	t.Parallel()
	need.Assets(t)
	dir := t.TempDir()
	clip := testClip(t, filepath.Join(dir, "c.mp4"), "0.2")
	cmd := program(t.Context(), dir, "serve")
	cmd.Env = append(cmd.Env, "POSEFLEET_MODELS="+ownModels(t), "POSEFLEET_MODEL=lite")
	job := func(id, model string) string {
		return fmt.Sprintf(`{"type":"job","job":%q,"clips":[{"id":"c1","path":%q}],"outDir":%q,"params":{"model":%q}}`+"\n", id, clip, dir, model)
	}
	cmd.Stdin = strings.NewReader(job("an_1", "own:good") + job("an_2", "own:spoilt") + job("an_3", "own:nobody"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	type message struct {
		Type, Job, Code string
		Retryable       bool
		Model           struct{ Name string }
	}
	last := map[string]message{}
	for line := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		var m message
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		last[m.Job] = m
	}
	if m := last[""]; m.Type != "hello" || m.Model.Name != "blazepose-lite" {
		t.Errorf("%+v", m)
	}
	if m := last["an_1"]; m.Type != "result" || m.Model.Name != "good" {
		t.Errorf("%+v", m)
	}
	if m := last["an_2"]; m.Type != "error" || !m.Retryable {
		t.Errorf("a file that is wrong on this machine: %+v", m)
	}
	if m := last["an_3"]; m.Type != "error" || m.Code != "invalid_job" || m.Retryable {
		t.Errorf("a model that is not there: %+v", m)
	}
}
