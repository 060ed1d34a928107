package main

import (
	"slices"
	"strings"
	"testing"
)

// What is called is found, once; what is only required is not. Go's own is no fault of a commit.
func TestFindings(t *testing.T) {
	t.Parallel()

	const stream = `{"config":{"db":"file:///x"}}
{"finding":{"osv":"GO-1","fixed_version":"v1.2.0","trace":[{"module":"example.org/m","version":"v1.1.0"}]}}
{"finding":{"osv":"GO-2","fixed_version":"v1.26.9","trace":[{"module":"stdlib","version":"v1.26.8","function":"Read"},{"module":"ours"}]}}
{"finding":{"osv":"GO-2","fixed_version":"v1.26.9","trace":[{"module":"stdlib","version":"v1.26.8","function":"Write"}]}}`

	found, err := readFindings(strings.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}

	want := []finding{{"GO-2", "stdlib", "v1.26.8", "v1.26.9"}}
	if !slices.Equal(found, want) {
		t.Errorf("%v, want %v", found, want)
	}

	if err := judge(found); err != nil {
		t.Errorf("Go's own: %v", err)
	}

	if judge(append(found, finding{"GO-3", "example.org/m", "v1", ""})) == nil {
		t.Error("a module's was let pass")
	}

	if _, err := readFindings(strings.NewReader("no JSON")); err == nil {
		t.Error("no JSON was let pass")
	}
}
