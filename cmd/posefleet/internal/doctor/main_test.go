package doctor

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

const (
	patience = time.Minute
	fakeWord = "fake-extractor"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == fakeWord {
		fakeExtractor(os.Args[2])
		os.Exit(0)
	}

	goleak.VerifyTestMain(m)
}

// fakeModel is the sum that the fake says of its model.
var fakeModel = strings.Repeat("ab", 32)

// fakeExtractor is this program as an extractor: it speaks the real protocol, or does not.
func fakeExtractor(how string) {
	hello := protocol.ExtractorHello{
		Type: protocol.MessageHello, Protocol: protocol.ExtractorProtocol, Name: "fake 1",
		Model: protocol.Model{Name: "fake", Version: "1", SHA256: fakeModel},
	}

	switch how {
	case "exit":
		fmt.Fprintln(os.Stderr, "assets_missing: there are \x1b[31mno models")
		os.Exit(1)
	case "garbage":
		fmt.Println("Loading…")
	case "hang":
		signal.Ignore(syscall.SIGTERM)
		select {}
	case "old":
		hello.Protocol = 2
	case "deaf": // ends only when it is killed
		defer func() { select {} }()
	}

	if err := json.NewEncoder(os.Stdout).Encode(hello); err != nil {
		os.Exit(1)
	}

	for in := bufio.NewScanner(os.Stdin); in.Scan(); { // until its end, like a real one
	}
}

// fake is the command of the fake extractor, under another name if one is given.
func fake(t *testing.T, how, name string) extractorArea {
	t.Helper()

	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	if name != "" {
		link := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(exe, link); err != nil {
			t.Fatal(err)
		}

		exe = link
	}

	return extractorArea{command: []string{exe, fakeWord, how}, env: []string{"PATH=" + os.Getenv("PATH")}}
}

// models makes an assets folder whose heavy model has the sum that the fake says, and one file with a sum that is right.
func models(t *testing.T) string {
	t.Helper()

	dir := t.TempDir()
	file := filepath.Join(dir, "some.onnx")

	write(t, file, "a model")

	sum, err := assets.Sum(file)
	if err != nil {
		t.Fatal(err)
	}

	write(t, filepath.Join(dir, assets.ManifestFile), fmt.Sprintf(`{"some.onnx":%q}`, sum))

	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()

	if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // some are programs
		t.Fatal(err)
	}
}

func secret(t *testing.T) []webhook.Secret {
	t.Helper()

	s, err := webhook.ParseSecrets(webhook.Generate())
	if err != nil {
		t.Fatal(err)
	}

	return s
}

// one returns the finding of a name, which has to be the only one.
func one(t *testing.T, found []Finding, name string) Finding {
	t.Helper()

	var hits []Finding

	for _, f := range found {
		if f.Name == name {
			hits = append(hits, f)
		}
	}

	if len(hits) != 1 {
		t.Fatalf("%d findings of %q in %v", len(hits), name, found)
	}

	return hits[0]
}

// expect checks level and text of a finding, and that it says how to mend what is not well.
func expect(t *testing.T, f Finding, level Level, words ...string) {
	t.Helper()

	if f.Level != level || (level != OK) != (f.Mend != "") {
		t.Errorf("want %s with a way to mend it: %s", level, f)
	}

	for _, w := range words {
		if !strings.Contains(f.String(), w) {
			t.Errorf("%q is not in: %s", w, f)
		}
	}
}
