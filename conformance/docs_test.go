package conformance

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGuaranteesAreTested: every promise of docs/guarantees.md names a test that is there, and where a name is a link the test is in that file.
func TestGuaranteesAreTested(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile(filepath.Join("..", "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}

	var sources strings.Builder

	err = filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}

		source, err := os.ReadFile(path)
		sources.Write(source)

		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	names := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAllString(string(text), -1)
	if len(names) == 0 {
		t.Fatal("docs/guarantees.md names no test")
	}

	for _, name := range names {
		if !strings.Contains(sources.String(), "func "+name+"(t *testing.T)") && !strings.Contains(sources.String(), "func "+name+"(f *testing.F)") {
			t.Errorf("docs/guarantees.md names %s, which is nowhere", name)
		}
	}

	for _, link := range regexp.MustCompile("\\[`((?:Test|Fuzz)\\w+)`\\]\\(([^)]+)\\)").FindAllStringSubmatch(string(text), -1) {
		source, err := os.ReadFile(filepath.Join("..", "docs", filepath.FromSlash(link[2])))
		if err != nil || !strings.Contains(string(source), "func "+link[1]+"(") {
			t.Errorf("%s is not in %s: %v", link[1], link[2], err)
		}
	}
}
