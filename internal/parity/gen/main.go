// Command gen writes docs/parity.md. It runs each test that the table names first and writes nothing if one of them fails, is skipped or
// does not run.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/posefleet/posefleet/internal/parity"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)

	err := run(ctx)

	stop()

	if err != nil {
		fmt.Fprintln(os.Stderr, "parity:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}

	features := parity.Features()

	var faults []error
	for dir, names := range parity.Tests(features) {
		faults = append(faults, runTests(ctx, root, dir, names))
	}

	if err := errors.Join(faults...); err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(root, "docs", "parity.md"), []byte(parity.Document(features)), 0o644)
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}

	return strings.TrimSpace(string(out)), nil
}

// runTests runs the named tests of a package and says which of them have not passed.
func runTests(ctx context.Context, root, dir string, names []string) error {
	fmt.Fprintf(os.Stderr, "%d tests of %s\n", len(names), dir)

	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout=20m", "-json", "-run", "^("+strings.Join(names, "|")+")$", "./"+dir)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "POSEFLEET_REQUIRE=all")

	out, err := cmd.Output()
	outcome := outcomes(out)

	var faults []error
	if err != nil {
		faults = append(faults, fmt.Errorf("go test ./%s: %w", dir, err))
	}

	for _, name := range names {
		if got := outcome[name]; got != "pass" {
			faults = append(faults, fmt.Errorf("%s.%s: %s", dir, name, cmp.Or(got, "did not run")))
		}
	}

	return errors.Join(faults...)
}

// outcomes reads how each test ended. A test of which a part was skipped counts as skipped.
func outcomes(out []byte) map[string]string {
	ended := map[string]string{}

	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 16<<20)

	for lines.Scan() {
		var event struct{ Action, Test string }
		if json.Unmarshal(lines.Bytes(), &event) != nil || event.Test == "" {
			continue
		}

		test, _, _ := strings.Cut(event.Test, "/")

		switch event.Action {
		case "skip":
			ended[test] = "skipped"
		case "pass", "fail":
			if event.Test == test && ended[test] != "skipped" {
				ended[test] = event.Action
			}
		}
	}

	return ended
}
