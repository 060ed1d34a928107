package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGeneratedFilesAreCurrent(t *testing.T) {
	t.Parallel()
	need.Node(t)
	files, err := generate(t.Context(), "..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is out of date, run go generate ./protocol (-want +committed):\n%s", name, diff)
		}
	}
}

func runNode(t *testing.T, args ...string) string {
	t.Helper()
	need.Node(t)
	cmd, err := node.Command(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return string(out)
}

func TestNodeAgreesOnFixtures(t *testing.T) {
	t.Parallel()
	out := runNode(t, filepath.Join("..", "test", "fixtures.cjs"), filepath.Join("..", "..", "fixtures"))
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var checked int
	if _, err := fmt.Sscanf(lines[len(lines)-1], "checked %d", &checked); err != nil || checked < 300 {
		t.Fatalf("only %d were checked: %s", checked, out)
	}
	for _, line := range lines[:len(lines)-1] {
		t.Error(line)
	}
}

// A Node service written against the types compiles with every valid fixture, and not with wrong ones.
func TestTypesTakeFixtures(t *testing.T) {
	t.Parallel()
	schemas, err := readSchemas()
	if err != nil {
		t.Fatal(err)
	}
	var program bytes.Buffer
	var titles []string
	for name, schema := range schemas {
		if name == "common" {
			continue
		}
		var head struct{ Title string }
		if err := json.Unmarshal(schema, &head); err != nil {
			t.Fatal(err)
		}
		titles = append(titles, head.Title)
		files, err := filepath.Glob(filepath.Join("..", "..", "fixtures", "valid", name, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no fixtures: %v", name, err)
		}
		for i, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&program, "// %s\nexport const %s%d: %s = %s;\n", filepath.Base(file), strings.ToLower(head.Title), i, head.Title, bytes.TrimSpace(data))
		}
	}
	good := fmt.Sprintf("import type { %s } from \"@posefleet/protocol\";\n%s\n%s", strings.Join(titles, ", "), program.String(), consumer)
	if out, err := compile(t, map[string]string{"main": good}); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	wrong := map[string]string{
		"missing-field": `export const x: p.RedeemRequest = { analysisId: "a", workerId: "w", source: "queue", jobId: "a" };`,
		"wrong-word":    `export const x: p.Progress = { stage: "think", done: 0 };`,
		"wrong-type":    `export const x: p.LeaseAnswer = { leaseSeconds: "120" };`,
		"closed-object": `export const x: p.DoorRequest = { analysisId: "a", more: 1 };`,
		"point-of-two":  `export const x: p.Keypoint = [1, 2];`,
		"unknown-code":  `export const x: p.KnownErrorCode = "gpu_on_fire";`,
	}
	for name, source := range wrong {
		wrong[name] = "import type * as p from \"@posefleet/protocol\";\n" + source
	}
	out, _ := compile(t, wrong) // fails, as each file has to
	for name, source := range wrong {
		if !strings.Contains(out, name+".ts(2,") {
			t.Errorf("%s compiles: %s\n%s", name, source, out)
		}
	}
}

// consumer is what a receiver of results would write.
const consumer = `
import { JOB_NAME, ERROR_CODES, RESERVED_IDS, isValidAnalysisId, jobData, resultId } from "@posefleet/protocol";
import { schemas } from "@posefleet/protocol/schemas";

export function take(result: Result): string {
  switch (result.type) {
    case "pose.completed":
      return result.data.artifact.key;
    case "pose.failed":
      return result.data.error.code;
    case "pose.interrupted":
      return result.data.workerId;
  }
}
export const added: [string, { v: 1; analysisId: string }] = [JOB_NAME, jobData("an_1")];
export const more: unknown[] = [schemas.claim, ERROR_CODES.empty_file.retryable, RESERVED_IDS.length, isValidAnalysisId("x"), resultId("pose.failed", "a", 1)];
`

// compile type-checks the files (by name, without .ts) in a folder where the package is installed.
func compile(t *testing.T, files map[string]string) (string, error) {
	t.Helper()
	modules := filepath.Join(need.Node(t), "node_modules")
	dir := t.TempDir()
	pkg, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "node_modules", "@posefleet"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(pkg, filepath.Join(dir, "node_modules", "@posefleet", "protocol")); err != nil {
		t.Fatal(err)
	}
	args := []string{
		filepath.Join(modules, "typescript", "bin", "tsc"), "--noEmit", "--strict", "--pretty", "false",
		"--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext",
	}
	for name, source := range files {
		if err := os.WriteFile(filepath.Join(dir, name+".ts"), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, name+".ts")
	}
	cmd, err := node.Command(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}
