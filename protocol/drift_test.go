package protocol_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/protocol"
)

// goTypes is which Go type carries which schema.
var goTypes = map[string]reflect.Type{
	"job":                reflect.TypeFor[protocol.JobData](),
	"return-value":       reflect.TypeFor[protocol.ReturnValue](),
	"progress":           reflect.TypeFor[protocol.Progress](),
	"redeem-request":     reflect.TypeFor[protocol.RedeemRequest](),
	"params":             reflect.TypeFor[protocol.Params](),
	"claim":              reflect.TypeFor[protocol.Claim](),
	"lease-request":      reflect.TypeFor[protocol.LeaseRequest](),
	"lease-answer":       reflect.TypeFor[protocol.LeaseAnswer](),
	"artifact-request":   reflect.TypeFor[protocol.ArtifactRequest](),
	"artifact-answer":    reflect.TypeFor[protocol.ArtifactAnswer](),
	"result":             reflect.TypeFor[protocol.Result](),
	"result-answer":      reflect.TypeFor[protocol.ResultAnswer](),
	"problem":            reflect.TypeFor[protocol.Problem](),
	"door-request":       reflect.TypeFor[protocol.DoorRequest](),
	"door-accept":        reflect.TypeFor[protocol.DoorAccept](),
	"door-state":         reflect.TypeFor[protocol.DoorState](),
	"extractor-hello":    reflect.TypeFor[protocol.ExtractorHello](),
	"extractor-job":      reflect.TypeFor[protocol.ExtractorJob](),
	"extractor-progress": reflect.TypeFor[protocol.ExtractorProgress](),
	"extractor-result":   reflect.TypeFor[protocol.ExtractorResult](),
	"extractor-error":    reflect.TypeFor[protocol.ExtractorError](),
	"pose":               reflect.TypeFor[pose.Document](),
}

// lenient are fields whose requiredness differs between the schema and the Go type, with the reason.
var lenient = map[string]string{
	"job.v":                          "our writers always say the version, readers take a missing one for 1",
	"door-request.v":                 "as job.v",
	"claim.clips[].expiresAt":        "a claim without it can be used: nobody judges by it",
	"pose.clips[].media.sizeChanges": "older documents do not have it",

	"pose.clips[].frames[].filled[].score":     "the encoder writes none for a person who is filled in",
	"pose.clips[].frames[].filled[].box":       "as the score",
	"pose.clips[].frames[].filled[].keypoints": "as the score",
}

// opaque are places where the Go type hands the JSON through, or has a form of its own.
var opaque = map[string]string{
	"claim.params": "read by ParseParams, compared as params",
}

func TestSchemasMatchGoTypes(t *testing.T) {
	t.Parallel()
	d := loadDocs(t)
	for name := range d.docs {
		if name != "common" && goTypes[name] == nil {
			t.Errorf("schema %s has no Go type", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(goTypes)) {
		for _, fault := range d.compare(name, name, goTypes[name], d.docs[name]) {
			t.Error(fault)
		}
	}
	for place := range lenient {
		if !d.lenientUsed[place] {
			t.Errorf("the exception for %s is not needed", place)
		}
	}
}

type node = map[string]any

// docs are all schemas as plain JSON.
type docs struct {
	docs        map[string]node
	lenientUsed map[string]bool
}

func loadDocs(t *testing.T) *docs {
	t.Helper()
	d := &docs{map[string]node{}, map[string]bool{}}
	names, err := fs.Glob(protocol.Schemas(), "*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := fs.ReadFile(protocol.Schemas(), name)
		if err != nil {
			t.Fatal(err)
		}
		var doc node
		if err := json.Unmarshal(data, &doc); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		d.docs[strings.TrimSuffix(name, ".json")] = doc
	}
	return d
}

// resolve follows references out of the schema file.
func (d *docs) resolve(file string, n node) (string, node) {
	for {
		ref, ok := n["$ref"].(string)
		if !ok {
			return file, n
		}
		where, pointer, _ := strings.Cut(ref, "#/")
		if where != "" {
			file = strings.TrimSuffix(where, ".json")
		}
		n = d.docs[file]
		for part := range strings.SplitSeq(pointer, "/") {
			n, _ = n[part].(node)
		}
	}
}

// compare returns what differs between the Go type and the schema at place.
func (d *docs) compare(place, file string, t reflect.Type, n node) []string {
	if opaque[place] != "" || t == reflect.TypeFor[json.RawMessage]() {
		return nil
	}
	file, n = d.resolve(file, n)
	n = d.merge(file, n)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	want := jsonType(t)
	if got := schemaType(n); want != "" && got != want {
		return []string{fmt.Sprintf("%s is %s in Go and %s in the schema", place, want, got)}
	}
	switch {
	case want == "array":
		items, _ := n["items"].(node)
		return d.compare(place+"[]", file, t.Elem(), items)
	case want == "object" && t.Kind() == reflect.Struct:
		return d.compareObject(place, file, t, n)
	}
	return nil
}

// merge makes one object of the branches of oneOf: all their properties, required if in all; a null branch falls away.
func (d *docs) merge(file string, n node) node {
	branches, ok := n["oneOf"].([]any)
	if !ok {
		return n
	}
	var merged node
	for _, b := range branches {
		_, branch := d.resolve(file, b.(node))
		if branch["type"] == "null" {
			continue
		}
		if merged == nil {
			merged = maps.Clone(branch)
			continue
		}
		merged = union(merged, branch)
	}
	return merged
}

func union(a, b node) node {
	propsA, okA := a["properties"].(node)
	propsB, okB := b["properties"].(node)
	if !okA || !okB {
		return a
	}
	props := maps.Clone(propsA)
	for name, prop := range propsB {
		old, both := props[name].(node)
		if both {
			prop = union(old, prop.(node))
		}
		props[name] = prop
	}
	var required []any
	for _, name := range names(a["required"]) {
		if slices.Contains(names(b["required"]), name) {
			required = append(required, name)
		}
	}
	return node{"type": "object", "properties": props, "required": required}
}

func names(list any) []string {
	var out []string
	items, _ := list.([]any)
	for _, item := range items {
		out = append(out, item.(string))
	}
	return out
}

func (d *docs) compareObject(place, file string, t reflect.Type, n node) []string {
	var faults []string
	props, _ := n["properties"].(node)
	required := names(n["required"])
	fields := jsonFields(t)
	for name, field := range fields {
		at := place + "." + name
		prop, ok := props[name].(node)
		if !ok {
			faults = append(faults, at+" is not in the schema")
			continue
		}
		if field.required != slices.Contains(required, name) {
			if lenient[at] == "" {
				faults = append(faults, fmt.Sprintf("%s: always written by Go is %v, required by the schema %v", at, field.required, !field.required))
			}
			d.lenientUsed[at] = true
		}
		faults = append(faults, d.compare(at, file, field.typ, prop)...)
	}
	for name := range props {
		if _, ok := fields[name]; !ok {
			faults = append(faults, place+"."+name+" is not in the Go type")
		}
	}
	return faults
}

type jsonField struct {
	typ      reflect.Type
	required bool
}

// jsonFields are the fields of a struct as encoding/json sees them, embedded structs included.
func jsonFields(t reflect.Type) map[string]jsonField {
	fields := map[string]jsonField{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			maps.Copy(fields, jsonFields(f.Type))
		case f.IsExported() && name != "-":
			fields[name] = jsonField{f.Type, !strings.Contains(options, "omit")}
		}
	}
	return fields
}

func jsonType(t reflect.Type) string {
	if t == reflect.TypeFor[time.Time]() {
		return "string"
	}
	if t.Kind() != reflect.Map && t.Implements(reflect.TypeFor[json.Marshaler]()) {
		return "" // a form of its own
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.Map, reflect.Struct:
		return "object"
	default:
		return t.String()
	}
}

func schemaType(n node) string {
	switch typ := n["type"].(type) {
	case string:
		return typ
	case []any: // nullable
		return typ[0].(string)
	}
	switch n["const"].(type) {
	case string:
		return "string"
	case float64:
		return "integer"
	}
	return "anything"
}
