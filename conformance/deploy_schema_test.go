package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"go.yaml.in/yaml/v3"
)

// What the resource types of the templates may and must say is in testdata, taken from Amazon's resource specification and from the
// bindings of Terraform's AWS provider. The provider itself, which `terraform validate` asks, is not to be had in the tests.

// readSchema reads one of the files that schemas.mjs has made.
func readSchema(t *testing.T, name string, into any) {
	t.Helper()

	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}

	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// cfnProperty is a property of CloudFormation. Of is a name in types, or the element of an array.
type cfnProperty struct {
	Type     string
	Of       json.RawMessage
	Required bool
	Values   []any
}

type cfnSchema struct {
	Resources map[string]struct {
		Attributes []string
		Properties map[string]cfnProperty
	}
	Types map[string]struct{ Properties map[string]cfnProperty }
}

// check holds the resources of a template against the schema and names what is wrong.
func (s *cfnSchema) check(template part) []string {
	var wrong []string

	kinds := map[string]string{}

	resources := template.get("Resources")
	for _, name := range resources.keys() {
		r := resources.get(name)
		kinds[name] = r.get("Type").Value

		known, ok := s.Resources[kinds[name]]
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s: type %s is not in the schema: run schemas.mjs", name, kinds[name]))

			continue
		}

		wrong = append(wrong, s.object(name, r.get("Properties"), known.Properties)...)
	}

	template.walk(func(n part) {
		name, attribute, found := strings.Cut(n.Value, ".")
		if n.Tag != "!GetAtt" || !found {
			return
		}

		if known, ok := s.Resources[kinds[name]]; ok && !slices.Contains(known.Attributes, attribute) {
			wrong = append(wrong, fmt.Sprintf("line %d: %s has no attribute %s", n.Line, kinds[name], attribute))
		}
	})

	return wrong
}

func (s *cfnSchema) object(path string, value part, known map[string]cfnProperty) []string {
	var wrong []string

	for _, key := range value.keys() {
		p, ok := known[key]
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s has no property %s", path, key))

			continue
		}

		wrong = append(wrong, s.value(path+"."+key, value.get(key), p)...)
	}

	for name, p := range known {
		if p.Required && !slices.Contains(value.keys(), name) {
			wrong = append(wrong, fmt.Sprintf("%s lacks %s", path, name))
		}
	}

	return wrong
}

func (s *cfnSchema) value(path string, v part, p cfnProperty) []string {
	if strings.HasPrefix(v.Tag, "!") && !strings.HasPrefix(v.Tag, "!!") {
		return nil // a function, whose value nobody knows here
	}

	no := func(want string) []string { return []string{fmt.Sprintf("%s is no %s", path, want)} }

	switch p.Type {
	case "object":
		if v.Kind != yaml.MappingNode {
			return no("object")
		}

		return s.object(path, v, s.Types[text(p.Of)].Properties)
	case "array":
		if v.Kind != yaml.SequenceNode {
			return no("list")
		}

		var element cfnProperty
		if err := json.Unmarshal(p.Of, &element); err != nil {
			return []string{path + ": " + err.Error()}
		}

		var wrong []string
		for i, item := range v.Content {
			wrong = append(wrong, s.value(fmt.Sprintf("%s[%d]", path, i), part{item}, element)...)
		}

		return wrong
	case "string", "integer", "number", "boolean":
		return scalar(path, v, p)
	default:
		return nil
	}
}

func text(raw json.RawMessage) string {
	var name string

	_ = json.Unmarshal(raw, &name) // "" is no type

	return name
}

func scalar(path string, v part, p cfnProperty) []string {
	_, numberErr := strconv.ParseFloat(v.Value, 64)
	_, boolErr := strconv.ParseBool(v.Value)

	switch {
	case v.Kind != yaml.ScalarNode,
		p.Type == "integer" && (numberErr != nil || strings.Contains(v.Value, ".")),
		p.Type == "number" && numberErr != nil,
		p.Type == "boolean" && boolErr != nil:
		return []string{fmt.Sprintf("%s is no %s", path, p.Type)}
	case len(p.Values) > 0 && !slices.ContainsFunc(p.Values, func(known any) bool { return fmt.Sprint(known) == v.Value }):
		return []string{fmt.Sprintf("%s is %q, not one of %v", path, v.Value, p.Values)}
	}

	return nil
}

func parseTemplate(t *testing.T, template string) part {
	t.Helper()

	var root yaml.Node
	if err := yaml.Unmarshal([]byte(template), &root); err != nil {
		t.Fatal(err)
	}

	return part{root.Content[0]}
}

// TestCloudFormationSchema: the template says nothing that CloudFormation does not know, and all that it must.
func TestCloudFormationSchema(t *testing.T) {
	t.Parallel()

	var schema cfnSchema

	readSchema(t, "cloudformation-schema.json", &schema)

	good := readDeploy(t, "cloudformation.yaml")
	for _, w := range schema.check(parseTemplate(t, good)) {
		t.Error(w)
	}

	for before, after := range map[string]string{
		"StopTimeout: 120":                         "StopTime: 120",                       // no such property, deep inside
		"Essential: true":                          "Essential: always",                   // no boolean
		"LaunchType: FARGATE":                      "LaunchType: SERVERLESS",              // not one of the values
		"FilterPattern: '{ $.msg = \"queue\" }'\n": "\n",                                  // must be there
		"!GetAtt Service.Name":                     "!GetAtt Service.Title",               // no such attribute
		"Subnets: !Ref Subnets, ":                  "Subnets: subnet-1, ",                 // no list
		"AWS::ECS::Service\n":                      "AWS::ECS::Servant\n",                 // no such type
		"Memory: !Ref Memory":                      "Memory: {Amount: 8, Unit: Gigabyte}", // no string
	} {
		if !strings.Contains(good, before) {
			t.Errorf("%q is not in the template", before)
		}

		if len(schema.check(parseTemplate(t, strings.Replace(good, before, after, 1)))) == 0 {
			t.Errorf("%q for %q goes unnoticed", after, before)
		}
	}
}

// tfField is an attribute with a type of the bindings' language, or a block with fields.
type tfField struct {
	Required bool
	Type     string
	Block    map[string]tfField
}

type tfType struct {
	Fields  map[string]tfField
	Outputs []string
}

type tfSchema struct{ Resources, Data map[string]tfType }

// metaArguments go with every resource, whatever its provider.
func metaArguments() []string {
	return []string{"count", "for_each", "provider", "depends_on", "lifecycle", "provisioner", "connection"}
}

func (s *tfSchema) of(block *hclsyntax.Block) (tfType, bool) {
	from := map[string]map[string]tfType{"resource": s.Resources, "data": s.Data}[block.Type]
	known, ok := from[block.Labels[0]]

	return known, ok
}

// check holds the resources of a file and what they take from each other against the schema.
func (s *tfSchema) check(body *hclsyntax.Body) []string {
	var wrong []string

	for _, b := range body.Blocks {
		if b.Type != "resource" && b.Type != "data" {
			continue
		}

		known, ok := s.of(b)
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s is not in the schema: run schemas.mjs", b.Labels[0]))

			continue
		}

		wrong = append(wrong, checkBody(strings.Join(b.Labels, "."), b.Body, known.Fields, metaArguments())...)
	}

	_ = hclsyntax.VisitAll(body, func(n hclsyntax.Node) hcl.Diagnostics { // the visitor finds no fault
		if e, ok := n.(*hclsyntax.ScopeTraversalExpr); ok {
			wrong = append(wrong, s.reference(e.Traversal)...)
		}

		return nil
	})

	return wrong
}

// reference looks at what is read of a resource: type.name.attribute, with data before it for what exists already.
func (s *tfSchema) reference(traversal hcl.Traversal) []string {
	var names []string

	for _, step := range traversal {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			names = append(names, s.Name)
		case hcl.TraverseAttr:
			names = append(names, s.Name)
		}
	}

	from := s.Resources
	if names[0] == "data" {
		from, names = s.Data, names[1:]
	}

	known, ok := from[names[0]]
	if !ok || len(names) < 3 {
		return nil
	}

	if _, given := known.Fields[names[2]]; given || slices.Contains(known.Outputs, names[2]) {
		return nil
	}

	return []string{fmt.Sprintf("%s has no attribute %s", names[0], names[2])}
}

func checkBody(path string, body *hclsyntax.Body, known map[string]tfField, meta []string) []string {
	var wrong []string

	seen := map[string]bool{}

	for name, a := range body.Attributes {
		seen[name] = true

		field, ok := known[name]

		switch {
		case slices.Contains(meta, name):
		case !ok:
			wrong = append(wrong, fmt.Sprintf("%s has no attribute %s", path, name))
		case field.Block != nil:
			wrong = append(wrong, fmt.Sprintf("%s.%s is a block", path, name))
		default:
			wrong = append(wrong, checkLiteral(path+"."+name, a.Expr, field.Type)...)
		}
	}

	for _, b := range body.Blocks {
		seen[b.Type] = true

		field, ok := known[b.Type]

		switch {
		case slices.Contains(meta, b.Type):
		case !ok || field.Block == nil:
			wrong = append(wrong, fmt.Sprintf("%s has no block %s", path, b.Type))
		default:
			wrong = append(wrong, checkBody(path+"."+b.Type, b.Body, field.Block, nil)...)
		}
	}

	for name, field := range known {
		if field.Required && !seen[name] {
			wrong = append(wrong, fmt.Sprintf("%s lacks %s", path, name))
		}
	}

	return wrong
}

// checkLiteral looks at values that are written out.
func checkLiteral(path string, e hclsyntax.Expression, want string) []string {
	_, list := e.(*hclsyntax.TupleConsExpr)

	value, faults := e.Value(nil)
	if faults.HasErrors() || !value.IsWhollyKnown() { // taken from elsewhere
		if list && !strings.HasSuffix(want, "[]") {
			return []string{path + " is no list"}
		}

		return nil
	}

	kind, said := value.Type().FriendlyName(), ""
	if kind == "string" {
		said = value.AsString()
	}

	number := kind == "number" || isNumber(said)
	boolean := kind == "bool" || said == "true" || said == "false"

	switch {
	case strings.HasSuffix(want, "[]") != list && !strings.HasPrefix(want, "{"):
	case want == "number" && !number, want == "boolean" && !boolean, want == "string" && !value.Type().IsPrimitiveType():
	default:
		return nil
	}

	return []string{fmt.Sprintf("%s is no %s", path, want)}
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)

	return err == nil
}

func parseModule(t *testing.T, module string) *hclsyntax.Body {
	t.Helper()

	file, faults := hclparse.NewParser().ParseHCL([]byte(module), "module.tf")
	if faults.HasErrors() {
		t.Fatal(faults)
	}

	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		t.Fatalf("the module is %T", file.Body)
	}

	return body
}

// TestTerraformSchema: the module says nothing that the provider does not know, and all that it must.
func TestTerraformSchema(t *testing.T) {
	t.Parallel()

	var schema tfSchema

	readSchema(t, "terraform-schema.json", &schema)

	good := readDeploy(t, "terraform/main.tf") + readDeploy(t, "terraform/alarms.tf")
	for _, w := range schema.check(parseModule(t, good)) {
		t.Error(w)
	}

	for before, after := range map[string]string{
		"idle_timeout = 60":            "idle_time = 60",                          // no such attribute
		"size_in_gib = 40":             "size = 40",                               // none in the block, and one lacks
		"ephemeral_storage {":          "ephemeral_storage = {",                   // a block
		"treat_missing_data":           "missing_data",                            // no such attribute
		"aws_lb.door.arn_suffix":       "aws_lb.door.suffix",                      // nothing to be read
		"threshold           = 0":      "threshold           = \"none\"",          // no number
		"data.aws_region.current.name": "data.aws_region.current.title",           // nothing to be read
		"internal                   =": "internal                   = [1]\n  y =", // no boolean
		`resource "aws_ecs_service"`:   `resource "aws_ecs_servant"`,              // no such type
		"health_check {":               "health_checks {",                         // no such block
	} {
		if !strings.Contains(good, before) {
			t.Errorf("%q is not in the module", before)
		}

		if len(schema.check(parseModule(t, strings.Replace(good, before, after, 1)))) == 0 {
			t.Errorf("%q for %q goes unnoticed", after, before)
		}
	}

	for _, kinds := range []map[string]tfType{schema.Resources, schema.Data} {
		for _, name := range slices.Sorted(maps.Keys(kinds)) {
			if !strings.Contains(good, `"`+name+`"`) {
				t.Errorf("%s is in the schema and not in the module: run schemas.mjs", name)
			}
		}
	}
}
