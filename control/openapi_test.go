package control_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/posefleet/posefleet/internal/need"
)

var update = flag.Bool("update", false, "write docs/openapi.yaml anew")

// described is the OpenAPI document of the server, ready to be held against answers.
type described struct {
	paths    map[string]map[string]describedOperation
	compiler *jsonschema.Compiler
}

type describedOperation struct {
	OperationID string
	Role        string `json:"x-role"`
	Responses   map[string]struct {
		Content map[string]struct{ Schema json.RawMessage }
	}
}

const documentURL = "http://control.test/openapi.json"

var (
	theDocument     *described
	theDocumentOnce sync.Once
)

// document reads the document once for all tests: it is the same of every server.
func (b *bundle) document(t *testing.T) *described {
	t.Helper()
	theDocumentOnce.Do(func() {
		resp, err := b.client.Get("http://" + b.Addr() + "/openapi.json")
		if err != nil {
			t.Error(err)

			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)

			return
		}
		theDocument = readDocument(t, text)
	})
	if theDocument == nil {
		t.Fatal("there is no document")
	}

	return theDocument
}

func readDocument(t *testing.T, text []byte) *described {
	t.Helper()
	raw, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	d := &described{compiler: jsonschema.NewCompiler()}
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(documentURL, raw); err != nil {
		t.Fatal(err)
	}
	var paths struct {
		Paths map[string]map[string]describedOperation
	}
	if err := json.Unmarshal(text, &paths); err != nil {
		t.Fatal(err)
	}
	d.paths = paths.Paths

	return d
}

// find finds the operation of a request; "" if there is none.
func (d *described) find(method, path string) (string, describedOperation) {
	for template, methods := range d.paths {
		o, ok := methods[strings.ToLower(method)]
		a, b := strings.Split(template, "/"), strings.Split(path, "/")
		if ok && slices.EqualFunc(a, b, func(x, y string) bool { return x == y || strings.HasPrefix(x, "{") && y != "" }) {
			return template, o
		}
	}

	return "", describedOperation{}
}

var schemaLock sync.Mutex

// check holds an answer against the document: its status, its media type and its body.
func (d *described) check(t *testing.T, method, path string, r reply) {
	t.Helper()
	template, o := d.find(method, path)
	if template == "" {
		return // the router's own answers, pages and storage
	}
	status := strconv.Itoa(r.status)
	if r.status >= 500 {
		status = "5XX"
	}
	answer, ok := o.Responses[status]
	if !ok {
		t.Errorf("%s answers %d, which the document does not know: %s", o.OperationID, r.status, r.body)

		return
	}
	media, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
	if _, any := answer.Content["*/*"]; any || len(answer.Content) == 0 && len(r.body) == 0 {
		return
	}
	if _, ok := answer.Content[media]; !ok {
		t.Errorf("%s answers %d with %q, which the document does not know", o.OperationID, r.status, media)

		return
	}
	if !strings.Contains(media, "json") || r.header.Get("Content-Encoding") != "" {
		return
	}
	pointer := "/paths/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(template) + "/" + strings.ToLower(method) + "/responses/" + status + "/content/" +
		strings.ReplaceAll(media, "/", "~1") + "/schema"
	schemaLock.Lock()
	schema, err := d.compiler.Compile(documentURL + "#" + (&url.URL{Path: pointer}).EscapedPath())
	schemaLock.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.body))
	if err == nil {
		err = schema.Validate(body)
	}
	if err != nil {
		t.Errorf("%s answers %d with what the document does not allow: %v: %s", o.OperationID, r.status, err, r.body)
	}
}

// The committed document is that of the code.
func TestOpenAPIDrift(t *testing.T) {
	t.Parallel()
	const title = "# The control plane's API. Generated from control/openapi_operations.go; written anew by: go test ./control -run TestOpenAPIDrift -update\n"
	b := setup(t, nil)
	got := append([]byte(title), b.do(t, http.MethodGet, "/openapi.yaml", nil, nil).want(t, http.StatusOK, "").body...)
	path := filepath.Join(need.ModuleRoot(t), "docs", "openapi.yaml")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	had, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(had), string(got)); d != "" {
		t.Errorf("docs/openapi.yaml is not the document of the code: %s", d)
	}
}

// The document is well-formed 3.1: every reference leads somewhere, every operation has a name of its own and says how its faults look,
// and the YAML says what the JSON says.
func TestOpenAPIDocument(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	text := b.do(t, http.MethodGet, "/openapi.json", nil, nil).want(t, http.StatusOK, "").body
	var asJSON, asYAML any
	if err := errors.Join(json.Unmarshal(text, &asJSON), yaml.Unmarshal(b.do(t, http.MethodGet, "/openapi.yaml", nil, nil).body, &asYAML)); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(asYAML)
	if err != nil {
		t.Fatal(err)
	}
	var fromYAML any
	if err := json.Unmarshal(again, &fromYAML); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(asJSON, fromYAML); d != "" {
		t.Error(d)
	}
	d := readDocument(t, text)
	ids := map[string]bool{}
	for path, methods := range d.paths {
		for method, o := range methods {
			if ids[o.OperationID] || o.OperationID == "" {
				t.Errorf("%s %s: operation %q", method, path, o.OperationID)
			}
			ids[o.OperationID] = true
			for status, r := range o.Responses {
				_, problem := r.Content["application/problem+json"]
				if fault := status >= "4" && status != "416"; fault != problem {
					t.Errorf("%s %s: %s has the media types %v", method, path, status, r.Content)
				}
				for media := range r.Content {
					pointer := "/paths/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(path) + "/" + method + "/responses/" + status + "/content/" +
						strings.ReplaceAll(media, "/", "~1") + "/schema"
					if _, err := d.compiler.Compile(documentURL + "#" + (&url.URL{Path: pointer}).EscapedPath()); err != nil {
						t.Errorf("%s %s %s: %v", method, path, status, err)
					}
				}
			}
		}
	}
	if len(ids) < 20 {
		t.Errorf("%d operations", len(ids))
	}
	// The document's word on roles is the guard's.
	for path, methods := range d.paths {
		for method, o := range methods {
			open := strings.Contains(path, "claims") || strings.Contains(path, "results") || path == "/healthz" || path == "/readyz"
			if want := map[string]string{"get": "read", "post": "operate"}[method]; o.Role != want && o.Role != "" || o.Role == "" && !open {
				t.Errorf("%s %s needs the role %q", method, path, o.Role)
			}
		}
	}
}

// What workers send in the tests is what the document says that they send.
func TestOpenAPIRequests(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	d := b.document(t)
	c := redeemRequest("an_1", "w1", 1)
	for path, body := range map[string]any{
		"/v1/analyses": newAnalysis("an_1"), "/v1/claims/{id}": c, "/v1/analyses/{id}/submit": map[string]string{"dispatch": "none"},
		"/v1/accounts/{account}/grants": map[string]any{"key": "order-1", "credits": 1}, "/v1/analyses/{id}/retry": map[string]any{"round": 0, "reason": "x"},
	} {
		pointer := "/paths/" + strings.ReplaceAll(path, "/", "~1") + "/post/requestBody/content/application~1json/schema"
		schemaLock.Lock()
		schema, err := d.compiler.Compile(documentURL + "#" + (&url.URL{Path: pointer}).EscapedPath())
		schemaLock.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(mustJSON(t, body)))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
