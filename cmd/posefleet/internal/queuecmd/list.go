package queuecmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posefleet/posefleet/queue"
)

// ErrBadState says that a word is not the name of a state.
var ErrBadState = errors.New("no such state")

// ErrNotCleanable is an ErrBadState of its own.
var ErrNotCleanable = fmt.Errorf("%w: parents that wait for their children can't be cleaned; remove them by id", ErrBadState)

// states are those that jobs can be listed by, with the other names that people know them by.
var states = map[string]queue.State{
	"waiting": queue.StateWaiting, "wait": queue.StateWaiting, "active": queue.StateActive, "delayed": queue.StateDelayed,
	"prioritized": queue.StatePrioritized, "completed": queue.StateCompleted, "failed": queue.StateFailed,
	"waiting-children": queue.StateWaitingChildren,
}

// ParseState reads the name of a state.
func ParseState(name string) (queue.State, error) {
	state, ok := states[strings.ToLower(name)]
	if !ok {
		return "", fmt.Errorf("%w: %q (waiting, active, delayed, prioritized, waiting-children, completed, failed)", ErrBadState, name)
	}

	return state, nil
}

// listed is one entry of List's document.
type listed struct {
	ID           string      `json:"id"`
	Name         string      `json:"name"`
	State        queue.State `json:"state"`
	AttemptsMade int         `json:"attemptsMade"`
	AddedAt      *time.Time  `json:"addedAt,omitempty"`
	StartedAt    *time.Time  `json:"startedAt,omitempty"`
	FinishedAt   *time.Time  `json:"finishedAt,omitempty"`
	FailedReason string      `json:"failedReason,omitempty"`
}

// List shows the jobs of a state from the place from on, at most limit of them: those that are served next first, finished ones newest
// first.
func (d *Desk) List(ctx context.Context, state queue.State, from, limit int64) error {
	all, err := d.Queue.Jobs(ctx, state, from, limit)
	if err != nil {
		return err
	}

	found := make([]listed, 0, len(all))
	for _, j := range all {
		found = append(found, listed{
			ID: j.ID, Name: j.Name, State: state, AttemptsMade: j.AttemptsMade, AddedAt: moment(j.Timestamp),
			StartedAt: moment(j.ProcessedOn), FinishedAt: moment(j.FinishedOn), FailedReason: j.FailedReason,
		})
	}

	if d.JSON {
		return d.document(map[string]any{"jobs": found})
	}

	if len(found) == 0 {
		return d.say("no %s jobs", state)
	}

	return d.table(slices.Concat([][]string{{"ID", "NAME", "ATTEMPTS", "ADDED", "LAST START", "REASON"}}, d.listRows(found)))
}

func (d *Desk) listRows(found []listed) [][]string {
	ago := func(t *time.Time) string {
		if t == nil {
			return "-"
		}

		return age(d.now().Sub(*t)) + " ago"
	}

	rows := make([][]string, 0, len(found))
	for _, j := range found {
		rows = append(rows, []string{j.ID, short(j.Name, 24), strconv.Itoa(j.AttemptsMade), ago(j.AddedAt), ago(j.StartedAt), short(j.FailedReason, 80)})
	}

	return rows
}
