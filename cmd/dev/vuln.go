package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/posefleet/posefleet/cmd/dev/internal/proc"
	"github.com/posefleet/posefleet/cmd/dev/internal/setup"
)

// vulnMod pins govulncheck and the reports of known vulnerabilities, which are a module as well: what is known is a matter of the
// commit and not of the day, and no server is asked.
const vulnMod = "-modfile=internal/tools/vuln.mod"

// vuln looks for known vulnerabilities in what our programs call. It fails if there are some.
func (t *tool) vuln(ctx context.Context, _ []string) error {
	if err := t.setup.Run(ctx, setup.ScopeBuild); err != nil {
		return err
	}

	index, err := t.vulnIndex(ctx)
	if err != nil {
		return err
	}
	defer os.RemoveAll(index)

	checker, err := proc.Output(ctx, proc.Spec{Dir: t.root, Env: []string{"CGO_ENABLED=0"}, Args: []string{"go", "tool", vulnMod, "-n", "govulncheck"}})
	if err != nil {
		return err
	}

	// In this form it does not fail when it finds something.
	out, err := proc.Output(ctx, proc.Spec{Dir: t.root, Env: cgoEnv(), Args: []string{
		strings.TrimSpace(checker), "-db", "file://" + index, "-format", "json", "./cmd/...",
	}})
	if err != nil {
		return err
	}

	found, err := readFindings(strings.NewReader(out))
	if err != nil {
		return err
	}

	return judge(found)
}

// finding is a known vulnerability that our programs reach.
type finding struct{ id, module, have, fixed string }

// readFindings reads govulncheck's stream and keeps what is called; what is only required or imported harms nobody.
func readFindings(stream io.Reader) ([]finding, error) {
	var found []finding

	for d := json.NewDecoder(stream); ; {
		var message struct {
			Finding *struct {
				OSV          string `json:"osv"`
				FixedVersion string `json:"fixed_version"`
				Trace        []struct{ Module, Version, Function string }
			}
		}

		if err := d.Decode(&message); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, fmt.Errorf("read govulncheck's findings: %w", err)
		}

		f := message.Finding
		if f == nil || len(f.Trace) == 0 || f.Trace[0].Function == "" {
			continue
		}

		one := finding{f.OSV, f.Trace[0].Module, f.Trace[0].Version, f.FixedVersion}
		if !slices.Contains(found, one) {
			found = append(found, one)
		}
	}
}

// judge fails for what a commit can mend. The standard library is the affair of whoever installs Go, and is only warned of.
func judge(found []finding) error {
	bad := 0

	for _, f := range found {
		word := "warning"
		if f.module != "stdlib" {
			word = "fault"
			bad++
		}

		fmt.Printf("vuln: %s: %s in %s %s, mended in %s\n", word, f.id, f.module, f.have, cmp.Or(f.fixed, "no version"))
	}

	fmt.Printf("vuln: %d known vulnerabilities are reached, %d of them outside of Go itself\n", len(found), bad)

	if bad > 0 {
		return errors.New("there are known vulnerabilities in modules that we use")
	}

	return nil
}

// vulnIndex makes a folder that govulncheck reads as a database; the caller removes it.
func (t *tool) vulnIndex(ctx context.Context) (string, error) {
	const reports = "golang.org/x/vulndb"

	if err := proc.Run(ctx, proc.Spec{Dir: t.root, Args: []string{"go", "mod", "download", vulnMod, reports}}); err != nil {
		return "", err
	}

	source, err := proc.Output(ctx, proc.Spec{Dir: t.root, Args: []string{"go", "list", vulnMod, "-m", "-f", "{{.Dir}}", reports}})
	if err != nil {
		return "", err
	}

	index, err := os.MkdirTemp("", "posefleet-vulndb-")
	if err != nil {
		return "", fmt.Errorf("make a folder for the reports: %w", err)
	}

	spec := proc.Spec{Dir: t.root, Env: []string{"CGO_ENABLED=0"}, Args: []string{
		"go", "tool", vulnMod, "indexdb", "-vulns", filepath.Join(strings.TrimSpace(source), "data", "osv"), "-out", index,
	}}
	if err := proc.Run(ctx, spec); err != nil {
		return "", errors.Join(err, os.RemoveAll(index))
	}

	return index, nil
}
