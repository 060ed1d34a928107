package control

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
	// Name is the full name, as POSEFLEET_DATABASE_URL.
	Name    string
	Default string
	Help    string
}

// Flag returns the name of the flag that overrides the variable, as database-url.
func (v Variable) Flag() string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(v.Name, EnvPrefix), "_", "-"))
}

// Variables lists the control plane's variables in the order of Config.
func Variables() []Variable {
	var out []Variable
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if name := f.Tag.Get("env"); name != "-" {
			out = append(out, Variable{Name: EnvPrefix + name, Default: f.Tag.Get("envDefault"), Help: f.Tag.Get("help")})
		}
	}

	return out
}

func fault(name, format string, args ...any) *ConfigError {
	return &ConfigError{Variable: EnvPrefix + name, Reason: fmt.Sprintf(format, args...)}
}

// configErrors turns the parser's errors, which speak of Go fields and quote values, into ConfigErrors.
func configErrors(err error) []error {
	var out []error
	for _, one := range flatten(err) {
		if parse, ok := errors.AsType[env.ParseError](one); ok {
			one = fieldFault(parse)
		}
		out = append(out, one)
	}

	return out
}

func fieldFault(parse env.ParseError) error {
	f, ok := reflect.TypeFor[Config]().FieldByName(parse.Name)
	if !ok {
		return parse
	}

	return fault(f.Tag.Get("env"), "is not valid: %v", parse.Err)
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
	if c, ok := errors.AsType[*ConfigError](err); ok {
		return c.Variable
	}

	return ""
}
