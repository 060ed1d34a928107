// Package envconfig reads a configuration struct from environment variables and speaks of its faults as operators know them: by the
// variable's name, one fault a mistake, with no secret in any text.
//
// The tags of a field say everything: env (the name without Prefix; "-": no variable), envDefault, help, secret:"true".
package envconfig

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/posefleet/posefleet/protocol/webhook"
)

// Prefix is the prefix of every variable.
const Prefix = "POSEFLEET_"

// Error is one fault of a configuration. Its text names the variable and never holds a secret.
type Error struct {
	// Variable is the full name of the variable.
	Variable string
	Reason   string
}

// Error returns "VARIABLE reason".
func (e *Error) Error() string { return e.Variable + " " + e.Reason }

// Fault makes an *Error of a variable's name without Prefix.
func Fault(name, format string, args ...any) *Error {
	return &Error{Variable: Prefix + name, Reason: fmt.Sprintf(format, args...)}
}

// Variable describes one variable, for the command line and its help.
type Variable struct {
	// Name is the full name, as POSEFLEET_REDIS_URL.
	Name    string
	Default string
	Help    string
	// Bool says that it is a switch.
	Bool bool
}

// Flag returns the name of the flag that overrides the variable, as redis-url.
func (v Variable) Flag() string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(v.Name, Prefix), "_", "-"))
}

// Variables lists the variables of the struct C in the order of its fields.
func Variables[C any]() []Variable {
	var out []Variable
	for f := range fields(reflect.TypeFor[C]()) {
		out = append(out, Variable{
			Name: Prefix + f.Tag.Get("env"), Default: f.Tag.Get("envDefault"), Help: f.Tag.Get("help"), Bool: f.Type.Kind() == reflect.Bool,
		})
	}
	return out
}

// Given is environ without its empty variables, which count as not set.
func Given(environ map[string]string) map[string]string {
	given := maps.Clone(environ)
	maps.DeleteFunc(given, func(_, v string) bool { return v == "" })
	return given
}

// Parse reads the variables into c and returns an *Error for each that can't be read. Lists are separated by commas.
func Parse[C any](c *C, given map[string]string) []error {
	err := env.ParseWithOptions(c, env.Options{
		Environment: given, Prefix: Prefix,
		FuncMap: map[reflect.Type]env.ParserFunc{
			reflect.TypeFor[[]webhook.Secret](): func(v string) (any, error) { return webhook.ParseSecrets(v) },
			reflect.TypeFor[[]string]():         func(v string) (any, error) { return List(v), nil },
		},
	})
	var out []error
	for _, one := range flatten(err) {
		if parse, ok := errors.AsType[env.ParseError](one); ok {
			one = fieldFault(reflect.TypeFor[C](), parse)
		}
		out = append(out, one)
	}
	return out
}

// Join is the faults of reading and those of checking as one error, without the latter where a value could not even be read: that is one
// fault, not two.
func Join(unread []error, checked error) error {
	named := map[string]bool{}
	for _, err := range unread {
		named[variableOf(err)] = true
	}
	all := unread
	for _, err := range flatten(checked) {
		if !named[variableOf(err)] {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// List splits a comma-separated value; empty parts are left out.
func List(v string) []string {
	var out []string
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// fields yields the fields that are variables.
func fields(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for f := range t.Fields() {
			if name := f.Tag.Get("env"); name == "" || name == "-" {
				continue
			}
			if !yield(f) {
				return
			}
		}
	}
}

// fieldFault names the variable where the parser speaks of a Go field. The parser's reason quotes the value, a secret's parser does not.
func fieldFault(t reflect.Type, parse env.ParseError) error {
	f, ok := t.FieldByName(parse.Name)
	if !ok {
		return parse
	}
	if f.Tag.Get("secret") != "" {
		return Fault(f.Tag.Get("env"), "is not valid: %v", parse.Err)
	}
	if kind := form(f.Type); kind != "" {
		return Fault(f.Tag.Get("env"), "must be %s", kind)
	}
	return Fault(f.Tag.Get("env"), "can't be read: %v", parse.Err)
}

// form says how a value of the type is written; "" where the type's own parser says it better.
func form(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration as 500ms or 2m"
	case t == reflect.TypeFor[slog.Level]():
		return "debug, info, warn or error"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int:
		return "a whole number"
	default:
		return ""
	}
}

// flatten returns the leaves of joined errors.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if all, ok := errors.AsType[env.AggregateError](err); ok {
		return all.Errors
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, flatten(e)...)
	}
	return out
}

func variableOf(err error) string {
	c, _ := errors.AsType[*Error](err)
	return cmp.Or(c, &Error{}).Variable
}
