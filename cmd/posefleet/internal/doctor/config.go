package doctor

import (
	"errors"
	"strings"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/worker"
)

// conditional is an area that needs variables (without their prefix) to be right.
type conditional struct {
	area

	needs string
}

// sound leaves out the areas that need a variable with a fault.
func sound(faults error, all []conditional) []area {
	broken := brokenVariables(faults)

	var areas []area

	for _, a := range all {
		if !anyOf(broken, strings.Fields(a.needs)) {
			areas = append(areas, a.area)
		}
	}

	return areas
}

// brokenVariables are those that the configuration's faults name, without their prefix. "X or Y …" names two.
func brokenVariables(err error) map[string]bool {
	broken := map[string]bool{}

	for _, fault := range leaves(err) {
		for word := range strings.FieldsSeq(fault.Error()) {
			if name, ok := strings.CutPrefix(strings.TrimRight(word, ",:;"), worker.EnvPrefix); ok {
				broken[name] = true
			}
		}
	}

	return broken
}

func anyOf(set map[string]bool, names []string) bool {
	for _, name := range names {
		if set[name] {
			return true
		}
	}

	return false
}

// leaves are the single errors of joined ones.
func leaves(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		if err == nil {
			return nil
		}

		return []error{err}
	}

	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, leaves(e)...)
	}

	return all
}

// configuration has one line for each fault, or the one for a sound configuration. who does not start with a fault.
func configuration(faults error, who string, sound Finding) []Finding {
	var found []Finding

	for _, fault := range leaves(faults) {
		mend := "correct it"
		if variable := variableOf(fault); variable != "" {
			mend = "set " + variable
		}

		found = append(found, failure(sound.Name, mend+"; until then "+who+" does not start", "%s", fault))
	}

	if len(found) == 0 {
		found = append(found, sound)
	}

	return found
}

func variableOf(fault error) string {
	if c, ok := errors.AsType[*worker.ConfigError](fault); ok {
		return c.Variable
	}

	if c, ok := errors.AsType[*control.ConfigError](fault); ok {
		return c.Variable
	}

	return ""
}
