package worker

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/caarlos0/env/v11"
)

// ConfigError is one fault of the configuration. Its text names the variable and never holds a secret.
type ConfigError struct {
	// Variable is the full name of the variable.
	Variable string
	Reason   string
}

// Error returns "VARIABLE reason".
func (e *ConfigError) Error() string { return e.Variable + " " + e.Reason }

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
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(v.Name, EnvPrefix), "_", "-"))
}

// Variables lists the worker's variables in the order of Config.
func Variables() []Variable {
	var out []Variable
	for f := range fields() {
		out = append(out, Variable{
			Name: EnvPrefix + f.Tag.Get("env"), Default: f.Tag.Get("envDefault"), Help: f.Tag.Get("help"),
			Bool: f.Type.Kind() == reflect.Bool,
		})
	}
	return out
}

// fields yields the fields of Config that are variables.
func fields() func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for f := range reflect.TypeFor[Config]().Fields() {
			if name := f.Tag.Get("env"); name == "" || name == "-" {
				continue
			}
			if !yield(f) {
				return
			}
		}
	}
}

func fault(name, format string, args ...any) *ConfigError {
	return &ConfigError{Variable: EnvPrefix + name, Reason: fmt.Sprintf(format, args...)}
}

// configErrors turns the parser's errors, which speak of Go fields, into ConfigErrors.
func configErrors(err error) []error {
	if err == nil {
		return nil
	}
	var out []error
	for _, one := range flatten(err) {
		parse, ok := errors.AsType[env.ParseError](one)
		if !ok {
			out = append(out, fmt.Errorf("read configuration: %w", one))
			continue
		}
		out = append(out, fieldFault(parse))
	}
	return out
}

func fieldFault(parse env.ParseError) error {
	for f := range fields() {
		if f.Name != parse.Name {
			continue
		}
		if f.Tag.Get("secret") != "" { // the reason is the secret parser's own, which shows nothing of it
			return fault(f.Tag.Get("env"), "is not valid: %v", parse.Err)
		}
		return fault(f.Tag.Get("env"), "can't be read as %s: %v", kindName(f.Type), parse.Err)
	}
	return parse
}

func kindName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[Size]():
		return "a size"
	case t.String() == "time.Duration":
		return "a duration"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int:
		return "a number"
	default:
		return "a value"
	}
}

// flatten returns the leaves of joined errors.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if agg, ok := errors.AsType[env.AggregateError](err); ok {
		return agg.Errors
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
	if c, ok := errors.AsType[*ConfigError](err); ok {
		return c.Variable
	}
	return ""
}
