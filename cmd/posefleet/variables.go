package main

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/posefleet/posefleet/cmd/posefleet/internal/doctor"
	"github.com/posefleet/posefleet/cmd/posefleet/internal/queuecmd"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker"
)

// variables gives a command one flag for each configuration variable, so that neither list can miss one. The flags
// are the fields of a struct that is made at run time; kong reads it like any other.
type variables struct {
	list   []worker.Variable
	values reflect.Value // of the struct; field i belongs to list[i]; a nil pointer is a flag that was not given
}

func newVariables(list []worker.Variable) *variables {
	fields := make([]reflect.StructField, len(list))
	for i, v := range list {
		kind := reflect.TypeFor[*string]()
		tag := fmt.Sprintf(`name:%q placeholder:"VALUE" help:%q`, v.Flag(), helpOf(v))
		if v.Bool {
			kind, tag = reflect.TypeFor[*bool](), fmt.Sprintf(`name:%q negatable:"" help:%q`, v.Flag(), helpOf(v))
		}
		fields[i] = reflect.StructField{Name: "F" + strconv.Itoa(i), Type: kind, Tag: reflect.StructTag(tag)}
	}
	return &variables{list: list, values: reflect.New(reflect.StructOf(fields))}
}

// plugin is what a command embeds.
func (v *variables) plugin() kong.Plugins { return kong.Plugins{v.values.Interface()} }

// over returns the environment with the given flags laid over it.
func (v *variables) over(environ map[string]string) map[string]string {
	out := maps.Clone(environ)
	for i, variable := range v.list {
		if text, given := v.text(i); given {
			out[variable.Name] = text
		}
	}
	return out
}

// explain puts the flag's name in the place of the variable's where the faulty value came by flag.
func (v *variables) explain(err error) error {
	text := strings.ReplaceAll(oneLine(err), "; "+worker.EnvPrefix, ", "+worker.EnvPrefix)
	return &usageError{err: errors.New(v.name(text))}
}

// name puts the flags in the place of the variables in what is said of them.
func (v *variables) name(text string) string {
	for i, variable := range v.list {
		if _, given := v.text(i); given {
			text = strings.ReplaceAll(text, variable.Name+" ", "--"+variable.Flag()+" ")
		}
	}
	return text
}

// unreachable says where Redis was looked for and what to set, if that is what err is about.
func (v *variables) unreachable(o queue.Options, err error) error {
	if errors.Is(err, queuecmd.ErrNotInTime) {
		return err
	}
	found, ok := doctor.Unreachable(o, err)
	if !ok {
		return err
	}
	return errors.New(v.name(found.What + ": " + found.Mend))
}

func (v *variables) text(i int) (string, bool) {
	f := v.values.Elem().Field(i)
	if f.IsNil() {
		return "", false
	}
	return fmt.Sprint(f.Elem().Interface()), true
}

// helpOf adds the variable's name and its default to the help text.
func helpOf(v worker.Variable) string {
	text := strings.ReplaceAll(v.Help, "$", "$$")
	if v.Default != "" {
		text += " (default " + v.Default + ")"
	}
	return text + " [" + v.Name + "]"
}
