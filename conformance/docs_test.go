package conformance

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGuaranteesAreTested: every promise of docs/guarantees.md names a test that is there.
func TestGuaranteesAreTested(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile(filepath.Join("..", "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}

	var sources strings.Builder

	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}

	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		sources.Write(source)
	}

	names := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(text), -1)
	if len(names) == 0 {
		t.Fatal("docs/guarantees.md names no test")
	}

	for _, name := range names {
		if !strings.Contains(sources.String(), "func "+name+"(t *testing.T)") {
			t.Errorf("docs/guarantees.md names %s, which is not in this package", name)
		}
	}
}
