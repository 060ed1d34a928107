package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posefleet/posefleet/cmd/dev/internal/gotest"
	"github.com/posefleet/posefleet/cmd/dev/internal/proc"
	"github.com/posefleet/posefleet/cmd/dev/internal/setup"
)

const (
	// testTimeout bounds one package's tests, so that what hangs is named by go with its stacks.
	testTimeout = 12 * time.Minute
	// wholeTimeout bounds the command, setup included.
	wholeTimeout = 45 * time.Minute
	// parallelPackages is made for two cores; the servers that the tests start need some of them too.
	parallelPackages = 2
)

// gocvPath is the import that tells packages that link OpenCV from those that do not.
const gocvPath = "gocv.io/x/gocv"

// group is a part of the packages that is tested in one run of go test.
type group struct {
	name     string
	packages []string
	race     bool
	parallel int
	// tags take a guard out or make a test longer, run names the tests that it is for.
	tags, run string
}

// mutations are builds without a guard, in which certain tests must see the harm that the guard keeps away. Each is of one package, since
// some test has to run in each.
func mutations() []group {
	const store, pipeline, fleet = "./control/store", "./control/pipeline", "./control/fleet"

	return []group{
		{name: "without the compare-and-set", packages: []string{store}, parallel: 1, tags: "unguarded", run: "^TestNoGuard"},
		{name: "without the compare-and-set, runs", packages: []string{pipeline}, parallel: 1, tags: "unguarded", run: "^TestNoGuard"},
		{name: "without the ledger", packages: []string{store}, parallel: 1, tags: "unledgered", run: "^TestNoLedger"},
		{name: "fleet without the second reading", packages: []string{fleet}, parallel: 1, tags: "unreread", run: "^TestNoGuard"},
		{name: "fleet without the shelter", packages: []string{fleet}, parallel: 1, tags: "unsheltered", run: "^TestNoGuard"},
		{name: "fleet, 10,000 interleavings", packages: []string{fleet}, parallel: 1, tags: "interleavings", run: "^TestInterleavings"},
	}
}

// test sets up, builds, runs all tests and the linter, and ends with a line of numbers.
func (t *tool) test(ctx context.Context, args []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, wholeTimeout, fmt.Errorf("not done after %v", wholeTimeout))
	defer cancel()

	tools := &background{}

	// On a machine that trusts nobody yet, modules can be fetched only when setup has brought the certificates.
	early := setup.HasCertificates()
	if early {
		t.prebuild(ctx, tools)
	}

	err := t.setup.Run(ctx, setup.ScopeTest)
	if err == nil && !early {
		t.prebuild(ctx, tools)
	}

	if err == nil {
		err = t.compile(ctx)
	}

	if err != nil {
		cancel() // nothing of ours outlives the command
	}

	// The faults of what was cancelled here say nothing.
	if toolsErr := tools.wait(); err == nil {
		err = toolsErr
	}

	if err != nil {
		return err
	}

	report := gotest.New(os.Stdout)
	testErr := t.testGroups(ctx, report, args)

	var lintErr error
	if len(args) == 0 {
		lintErr = t.runLint(ctx)
	}

	fmt.Println(report.Summary())

	return errors.Join(testErr, lintErr)
}

// testGroups runs the groups one after the other; a failure in one does not keep the next from running.
func (t *tool) testGroups(ctx context.Context, report *gotest.Report, args []string) error {
	groups, err := t.groups(ctx, args)
	if err != nil {
		return err
	}

	var faults []error

	for _, g := range groups {
		start, before := time.Now(), report.Tests()

		// A failing test ends go test with status 1, which the report knows better; status 2 and signals are no test's doing.
		err := t.runGroup(ctx, g, report)
		if err != nil && exitCode(err) != 1 {
			faults = append(faults, err)
		}

		if g.run != "" {
			report.Require(g.name, before)
		}

		fmt.Printf("tests: %s: %.0f s\n", g.name, time.Since(start).Seconds())
	}

	report.Close()

	if !report.OK() {
		faults = append(faults, errors.New("tests failed"))
	}

	return errors.Join(faults...)
}

func (t *tool) runGroup(ctx context.Context, g group, report *gotest.Report) error {
	args := []string{
		"go", "test", "-json", "-count=1", "-timeout", testTimeout.String(), "-p", strconv.Itoa(g.parallel),
	}
	if g.race {
		args = append(args, "-race")
	}

	if g.tags != "" {
		args = append(args, "-tags", g.tags, "-run", g.run)
	}

	env := append(cgoEnv(), "POSEFLEET_BIN="+t.bin(""))
	// Setup has brought everything, so that a skip would only hide a fault; a tester who wants skips can say so.
	if os.Getenv("POSEFLEET_REQUIRE") == "" {
		env = append(env, "POSEFLEET_REQUIRE=all")
	}

	return proc.Stream(ctx, proc.Spec{Dir: t.root, Env: env, Args: append(args, g.packages...)}, report)
}

// groups divides the packages: those without OpenCV run under the race detector, those with it without (the detector does not see into
// C++ and would compile gocv once more), and the tests of the whole system run alone at the end, because they look at the clock. Those of control
// planes fill a machine with servers, browsers and processes each: beside each other they would fail each other's deadlines.
func (t *tool) groups(ctx context.Context, patterns []string) ([]group, error) {
	whole := len(patterns) == 0
	if whole {
		patterns = []string{"./..."}
	}

	pure := group{name: "pure Go, with race detector", race: true, parallel: parallelPackages}
	crowded := group{name: "control planes, with race detector", race: true, parallel: 1}
	native := group{name: "with OpenCV", parallel: parallelPackages}
	system := group{name: "whole system", parallel: 1}

	packages, err := t.listPackages(ctx, patterns)
	if err != nil {
		return nil, err
	}

	for path, usesOpenCV := range packages {
		switch {
		case strings.Contains(path, "/conformance"):
			system.packages = append(system.packages, path)
		case strings.HasSuffix(path, "/control"), strings.HasSuffix(path, "/control/pipeline"):
			crowded.packages = append(crowded.packages, path)
		case usesOpenCV:
			native.packages = append(native.packages, path)
		default:
			pure.packages = append(pure.packages, path)
		}
	}

	var groups []group

	for _, g := range []group{pure, crowded, native, system} {
		if len(g.packages) > 0 {
			slices.Sort(g.packages)
			groups = append(groups, g)
		}
	}

	if whole {
		groups = append(groups, mutations()...)
	}

	return groups, nil
}

// listPackages maps the packages that match to whether they or their tests link OpenCV.
func (t *tool) listPackages(ctx context.Context, patterns []string) (map[string]bool, error) {
	const format = `{{if .ForTest}}{{.ForTest}}{{else}}{{.ImportPath}}{{end}} {{join .Deps ","}}`

	out, err := proc.Output(ctx, proc.Spec{Dir: t.root, Env: cgoEnv(), Args: append([]string{"go", "list", "-test", "-f", format}, patterns...)})
	if err != nil {
		return nil, err
	}

	packages := map[string]bool{}

	for line := range strings.Lines(out) {
		path, deps, _ := strings.Cut(strings.TrimSpace(line), " ")
		path = strings.TrimSuffix(path, ".test")

		if path != "" {
			packages[path] = packages[path] || strings.Contains(deps, gocvPath)
		}
	}

	return packages, nil
}

// race runs the pure Go packages' tests under the race detector several times, which `test` does once.
func (t *tool) race(ctx context.Context, args []string) error {
	if err := t.setup.Run(ctx, setup.ScopeTest); err != nil {
		return err
	}

	if err := t.compile(ctx); err != nil {
		return err
	}

	groups, err := t.groups(ctx, args)
	if err != nil {
		return err
	}

	report := gotest.New(os.Stdout)
	defer func() { fmt.Println(report.Summary()) }()

	for range 3 {
		for _, g := range groups {
			if !g.race {
				continue
			}

			if err := t.runGroup(ctx, g, report); err != nil {
				return err
			}
		}
	}

	report.Close()

	return nil
}
