// Package parity knows what of BullMQ each library can do, and makes docs/parity.md of it. What it says of package queue names the tests
// that show it: the generator runs them, and a test of this package fails when one of them is gone or the document has drifted. What it
// says of Node's majors is asked of the installed packages. What it says of other ports is what their own documents say, and Unchecked
// where nobody has looked: it never guesses.
package parity

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// Mark is what is known of one library and one feature.
type Mark string

// What can be known.
const (
	Yes       Mark = "yes"
	Partly    Mark = "partly"
	No        Mark = "no"
	Unchecked Mark = "?"
)

// Feature is one row of the table.
type Feature struct {
	Area, Name string
	// Probe is a JavaScript expression over a major's package b that holds if the major has the feature. "": the marks are from
	// observation of both majors at work.
	Probe string
	// Marks of the others.
	Node6, Node5, Python, Rust, Go Mark
	// Tests that show that package queue has it, as package.TestName with the package's folder; none: it has not.
	Tests []string
	// Note is what a mark can't say.
	Note string
}

// Ours is the mark of package queue.
func (f *Feature) Ours() Mark {
	if len(f.Tests) == 0 {
		return No
	}

	return Yes
}

// SplitTest takes a test's name apart into the package's folder and the function.
func SplitTest(name string) (dir, fn string, ok bool) {
	at := strings.LastIndexByte(name, '.')
	if at < 0 {
		return "", "", false
	}

	return name[:at], name[at+1:], true
}

// Tests are the functions that the features name, by the folder of their package, sorted.
func Tests(features []Feature) map[string][]string {
	all := map[string][]string{}

	for _, f := range features {
		for _, name := range f.Tests {
			if dir, fn, ok := SplitTest(name); ok && !slices.Contains(all[dir], fn) {
				all[dir] = append(all[dir], fn)
			}
		}
	}

	for dir := range all {
		slices.Sort(all[dir])
	}

	return all
}

//go:embed head.md
var head string

// Document is docs/parity.md.
func Document(features []Feature) string {
	var b strings.Builder

	b.WriteString(head)

	area := ""

	for _, f := range features {
		if f.Area != area {
			area = f.Area
			fmt.Fprintf(&b, "\n## %s\n\n| feature | Node 6 | Node 5 | Python | Rust | Go (official) | **posefleet** | remark |\n|---|---|---|---|---|---|---|---|\n", area)
		}

		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | **%s** | %s |\n", f.Name, f.Node6, f.Node5, f.Python, f.Rust, f.Go, f.Ours(), f.Note)
	}

	b.WriteString("\n## Which tests show it\n\n| feature | tests |\n|---|---|\n")

	for _, f := range features {
		if len(f.Tests) > 0 {
			fmt.Fprintf(&b, "| %s | %s |\n", f.Name, testList(f.Tests))
		}
	}

	return b.String()
}

func testList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = "`" + name + "`"
	}

	return strings.Join(quoted, " ")
}
