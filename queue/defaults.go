package queue

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
)

// under puts defaults under a job's options: what says nothing there, being zero, is taken from them.
func (o *JobOptions) under(defaults *JobOptions) {
	if defaults == nil {
		return
	}

	extra := maps.Clone(defaults.Extra)
	if extra != nil {
		maps.Copy(extra, o.Extra)
	} else {
		extra = o.Extra
	}

	own, theirs := reflect.ValueOf(o).Elem(), reflect.ValueOf(defaults).Elem()
	for i := range own.NumField() {
		if own.Field(i).IsZero() {
			own.Field(i).Set(theirs.Field(i))
		}
	}

	o.Extra = extra
}

// underTemplate is under for what a scheduler makes, which decides itself when its jobs run.
func (o *JobOptions) underTemplate(defaults *JobOptions) {
	if defaults == nil {
		return
	}

	fit := *defaults
	fit.Delay, fit.Deduplication = 0, nil
	o.under(&fit)
}

// checkDefaults refuses what can't hold for all jobs.
func checkDefaults(o *JobOptions) error {
	if o == nil {
		return nil
	}

	if o.JobID != "" || o.Parent != nil || !o.Timestamp.IsZero() {
		return errors.Join(fmt.Errorf("%w: id, parent and timestamp can't be the same for all jobs", ErrBadOptions), o.validate())
	}

	return o.validate()
}
