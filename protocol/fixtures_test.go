package protocol_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// schemas compiles all schemas; formats are checked, too.
func schemas(t testing.TB) map[string]*jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	const base = "https://posefleet.github.io/schemas/v1/"
	names, err := fs.Glob(protocol.Schemas(), "*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no schemas: %v", err)
	}
	for _, name := range names {
		data, err := fs.ReadFile(protocol.Schemas(), name)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := compiler.AddResource(base+name, doc); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	all := map[string]*jsonschema.Schema{}
	for _, name := range names {
		if name == "common.json" {
			continue
		}
		schema, err := compiler.Compile(base + name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[strings.TrimSuffix(name, ".json")] = schema
	}
	return all
}

// readers are our own readers; they have to agree with the schema on every fixture.
var readers = map[string]func([]byte) error{
	"job":              reader(protocol.ParseJobData),
	"door-request":     reader(protocol.ParseDoorRequest),
	"redeem-request":   reader(protocol.ParseRedeemRequest),
	"lease-request":    reader(protocol.ParseLeaseRequest),
	"lease-answer":     reader(protocol.ParseLeaseAnswer),
	"artifact-request": reader(protocol.ParseArtifactRequest),
	"artifact-answer":  reader(protocol.ParseArtifactAnswer),
	"params":           reader(protocol.ParseParams),
	"result":           reader(protocol.ParseResult),
	"extractor-job":    reader(protocol.ParseExtractorJob),
	"claim": func(data []byte) error {
		_, _, err := protocol.ParseClaim(data, "an_1")
		return err
	},
	"extractor-hello":    reader(protocol.ParseExtractorMessage),
	"extractor-progress": reader(protocol.ParseExtractorMessage),
	"extractor-result":   reader(protocol.ParseExtractorMessage),
	"extractor-error":    reader(protocol.ParseExtractorMessage),
}

func reader[T any](parse func([]byte) (T, error)) func([]byte) error {
	return func(data []byte) error {
		_, err := parse(data)
		return err
	}
}

func TestFixtures(t *testing.T) {
	t.Parallel()
	for name, schema := range schemas(t) {
		for _, kind := range []string{"valid", "invalid"} {
			files, err := filepath.Glob(filepath.Join("fixtures", kind, name, "*.json"))
			if err != nil || len(files) == 0 {
				t.Errorf("%s has no %s fixtures", name, kind)
			}
			for _, file := range files {
				t.Run(file, func(t *testing.T) {
					t.Parallel()
					checkFixture(t, schema, readers[name], file, kind == "valid")
				})
			}
		}
	}
}

func checkFixture(t *testing.T, schema *jsonschema.Schema, read func([]byte) error, file string, valid bool) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); (err == nil) != valid {
		t.Errorf("the schema says %v", err)
	}
	if read == nil {
		return
	}
	if err := read(data); (err == nil) != valid {
		t.Errorf("the reader says %v", err)
	}
}

// Each folder of fixtures belongs to a schema, so that a renamed schema can't leave its fixtures behind unread.
func TestNoStrayFixtures(t *testing.T) {
	t.Parallel()
	all := schemas(t)
	for _, kind := range []string{"valid", "invalid"} {
		entries, err := os.ReadDir(filepath.Join("fixtures", kind))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if all[entry.Name()] == nil {
				t.Errorf("%s/%s has no schema", kind, entry.Name())
			}
		}
	}
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range readers {
			if !yield(name) {
				return
			}
		}
	})
	for _, name := range names {
		if all[name] == nil {
			t.Errorf("reader %s has no schema", name)
		}
	}
}
