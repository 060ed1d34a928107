// Package gotest reads the event stream of `go test -json` and tells people what they need to know: the output of what failed, in full,
// what was skipped and why, one line per package, and the numbers.
package gotest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

const didNotEnd = "did not end"

// event is one line of the stream; see `go doc test2json`. Build output comes under ImportPath.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

// Report gathers the events of one or more runs. It is an io.Writer for the stream.
type Report struct {
	Passed, Failed, Skipped int

	out      io.Writer
	rest     []byte // of an incomplete line
	running  map[string]*run
	builds   map[string]*bytes.Buffer
	failures map[string]int // failed tests by package
}

// run is a test (or, with an empty test name, a package) that has begun and not ended.
type run struct {
	pkg, test string
	output    bytes.Buffer
}

// New is an empty report that writes to out as the stream comes in.
func New(out io.Writer) *Report {
	return &Report{
		out:     out,
		running: map[string]*run{}, builds: map[string]*bytes.Buffer{}, failures: map[string]int{},
	}
}

// Write takes a piece of the stream.
func (r *Report) Write(b []byte) (int, error) {
	r.rest = append(r.rest, b...)

	for {
		line, rest, found := bytes.Cut(r.rest, []byte("\n"))
		if !found {
			return len(b), nil
		}

		r.rest = rest
		r.line(line)
	}
}

// Close ends a run: a package that has begun and not ended has failed.
func (r *Report) Close() {
	for _, key := range slices.Sorted(maps.Keys(r.running)) {
		if u := r.running[key]; u != nil && u.test == "" {
			r.fail(u, didNotEnd)
		}
	}
}

// OK reports whether something passed and nothing failed.
func (r *Report) OK() bool { return r.Failed == 0 && r.Passed > 0 }

// Require fails the run if no test has ended since there were so many: a pattern of names that
// matches nothing tests nothing, and go test calls that a success.
func (r *Report) Require(what string, before int) {
	if r.Tests() > before {
		return
	}

	r.Failed++
	fmt.Fprintf(r.out, "--- FAILED: %s: no test was run\n", what)
}

// Tests is how many tests have passed or failed so far; a skipped one has not tested anything.
func (r *Report) Tests() int { return r.Passed + r.Failed }

// Summary is the closing line.
func (r *Report) Summary() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", r.Passed, r.Failed, r.Skipped)
}

func (r *Report) line(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		// Not an event: the go command talks to us.
		fmt.Fprintf(r.out, "%s\n", line)

		return
	}

	if e.Package == "" && e.ImportPath != "" {
		r.build(e)

		return
	}

	r.event(e)
}

// build keeps the output of compilations, which is shown when one fails.
func (r *Report) build(e event) {
	switch e.Action {
	case "build-output":
		if r.builds[e.ImportPath] == nil {
			r.builds[e.ImportPath] = &bytes.Buffer{}
		}

		r.builds[e.ImportPath].WriteString(e.Output)
	case "build-fail":
		if b := r.builds[e.ImportPath]; b != nil {
			fmt.Fprintf(r.out, "--- BUILD FAILED: %s\n%s", e.ImportPath, b.String())
		}
	}
}

func (r *Report) event(e event) {
	key := e.Package + " " + e.Test

	u := r.running[key]
	if u == nil {
		u = &run{pkg: e.Package, test: e.Test}
		r.running[key] = u
	}

	switch e.Action {
	case "output":
		u.output.WriteString(e.Output)
	case "pass":
		r.pass(u, e.Elapsed)
	case "fail":
		r.fail(u, fmt.Sprintf("%.1f s", e.Elapsed))
	case "skip":
		r.skip(u)
	}
}

func (r *Report) pass(u *run, seconds float64) {
	r.end(u)

	if u.test == "" {
		fmt.Fprintf(r.out, "ok    %s  %.1f s\n", u.pkg, seconds)

		return
	}

	r.Passed++
}

// fail counts a package only when none of its tests failed: then it is the package itself that did (a compilation, TestMain, a leak).
func (r *Report) fail(u *run, how string) {
	r.end(u)

	if u.test == "" {
		fmt.Fprintf(r.out, "FAIL  %s\n", u.pkg)
		r.failRunning(u.pkg)

		if r.failures[u.pkg] > 0 {
			return
		}
	}

	r.Failed++
	r.failures[u.pkg]++
	fmt.Fprintf(r.out, "--- FAILED: %s (%s)\n%s", strings.TrimSpace(u.pkg+" "+u.test), how, u.output.String())
}

// failRunning fails the tests of an ended package that had begun: a crash or a timeout took them along.
func (r *Report) failRunning(pkg string) {
	for _, key := range slices.Sorted(maps.Keys(r.running)) {
		if u := r.running[key]; u.pkg == pkg {
			r.fail(u, didNotEnd)
		}
	}
}

func (r *Report) skip(u *run) {
	r.end(u)

	if u.test == "" {
		return // no test files
	}

	r.Skipped++
	fmt.Fprintf(r.out, "--- SKIPPED: %s %s: %s\n", u.pkg, u.test, reason(u.output.String()))
}

func (r *Report) end(u *run) { delete(r.running, u.pkg+" "+u.test) }

// reason is the line of a skipped test's output that says why.
func reason(output string) string {
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			return line
		}
	}

	return "no reason given"
}
