package queue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// State is where a job is.
type State string

// States of a job.
const (
	StateWaiting         State = "waiting"
	StateActive          State = "active"
	StateDelayed         State = "delayed"
	StatePrioritized     State = "prioritized"
	StateWaitingChildren State = "waiting-children"
	StateCompleted       State = "completed"
	StateFailed          State = "failed"
	StateUnknown         State = "unknown"
)

// Counts are how many jobs are in each state.
type Counts struct {
	// Waiting includes the jobs that a major 5 client moved away when it paused the queue, and those with a priority are not in it.
	Waiting, Active, Delayed, Prioritized, WaitingChildren, Completed, Failed int64
	// Paused: nobody takes jobs now.
	Paused bool
}

// WorkerInfo is a connected worker of the queue, in any language.
type WorkerInfo struct {
	Name string // "" if the worker has none
	Addr string // of its connection
	ID   string // of its connection
	Age  time.Duration
	Idle time.Duration
}

// Job reads a job; ErrJobNotFound if there is none.
func (q *Queue) Job(ctx context.Context, id string) (*Job, error) {
	fields, err := q.client.get().HGetAll(ctx, q.keys.job(id)).Result()
	if err != nil {
		return nil, fmt.Errorf("read job %s: %w", id, err)
	}

	if len(fields) == 0 {
		return nil, fmt.Errorf("read job %s: %w", id, ErrJobNotFound)
	}

	j, err := decodeJob(id, fields)
	j.desk = &desk{line: q.client, scripts: q.scripts, keys: q.keys}

	return j, err
}

// State tells where a job is; StateUnknown if nowhere.
func (q *Queue) State(ctx context.Context, id string) (State, error) {
	reply, err := q.scripts.state.run(ctx, q.client, q.keys, id)
	if err != nil {
		return StateUnknown, fmt.Errorf("state of job %s: %w", id, err)
	}

	state, _ := reply.(string)

	return State(state), nil
}

// Counts counts the jobs of each state.
func (q *Queue) Counts(ctx context.Context) (Counts, error) {
	pipe := q.client.get().Pipeline()
	wait, paused, active := pipe.LLen(ctx, q.keys.of(keyWait)), pipe.LLen(ctx, q.keys.of(keyPaused)), pipe.LLen(ctx, q.keys.of(keyActive))
	delayed, prioritized := pipe.ZCard(ctx, q.keys.of(keyDelayed)), pipe.ZCard(ctx, q.keys.of(keyPrioritized))
	children := pipe.ZCard(ctx, q.keys.of(keyWaitingChildren))
	completed, failed := pipe.ZCard(ctx, q.keys.of(keyCompleted)), pipe.ZCard(ctx, q.keys.of(keyFailed))
	isPaused := pipe.HExists(ctx, q.keys.of(keyMeta), "paused")

	if _, err := pipe.Exec(ctx); err != nil {
		return Counts{}, fmt.Errorf("count jobs: %w", err)
	}

	return Counts{
		Waiting: wait.Val() + paused.Val(), Active: active.Val(), Delayed: delayed.Val(), Prioritized: prioritized.Val(),
		WaitingChildren: children.Val(), Completed: completed.Val(), Failed: failed.Val(), Paused: isPaused.Val(),
	}, nil
}

// IDs lists job ids of a state, from the place from on, at most limit of them: those that are served next first, finished ones newest
// first.
func (q *Queue) IDs(ctx context.Context, state State, from, limit int64) ([]string, error) {
	if limit <= 0 || from < 0 {
		return nil, nil
	}

	var (
		ids []string
		err error
	)

	switch state {
	case StateWaiting:
		ids, err = q.waitingIDs(ctx, from, limit)
	case StateActive:
		ids, err = q.listTail(ctx, keyActive, from, limit)
	case StateCompleted, StateFailed:
		ids, err = q.client.get().ZRevRange(ctx, q.keys.of(string(state)), from, from+limit-1).Result()
	case StateDelayed, StatePrioritized, StateWaitingChildren:
		ids, err = q.client.get().ZRange(ctx, q.keys.of(string(state)), from, from+limit-1).Result()
	default:
		return nil, fmt.Errorf("list %q jobs: %w", state, ErrNotInState)
	}

	if err != nil {
		return nil, fmt.Errorf("list %s jobs: %w", state, err)
	}

	return ids, nil
}

// waitingIDs reads wait and then what major 5 has moved to paused.
func (q *Queue) waitingIDs(ctx context.Context, from, limit int64) ([]string, error) {
	ids, err := q.listTail(ctx, keyWait, from, limit)
	if err != nil || int64(len(ids)) == limit {
		return ids, err
	}

	length, err := q.client.get().LLen(ctx, q.keys.of(keyWait)).Result()
	if err != nil {
		return nil, err
	}

	more, err := q.listTail(ctx, keyPaused, max(from-length, 0), limit-int64(len(ids)))

	return append(ids, more...), err
}

// listTail reads a list from its right end, where the next job is; markers of old majors are left out.
func (q *Queue) listTail(ctx context.Context, key string, from, limit int64) ([]string, error) {
	raw, err := q.client.get().LRange(ctx, q.keys.of(key), -from-limit, -from-1).Result()
	if err != nil {
		return nil, err
	}

	ids := make([]string, 0, len(raw))

	for _, id := range slices.Backward(raw) {
		if !strings.HasPrefix(id, "0:") {
			ids = append(ids, id)
		}
	}

	return ids, nil
}

// Logs reads the job's log, oldest row first.
func (q *Queue) Logs(ctx context.Context, id string) ([]string, error) {
	rows, err := q.client.get().LRange(ctx, q.keys.logs(id), 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("logs of job %s: %w", id, err)
	}

	return rows, nil
}

// Workers lists the workers that are connected to the queue. It needs the right to call CLIENT LIST. On a cluster it asks one node.
func (q *Queue) Workers(ctx context.Context) ([]WorkerInfo, error) {
	list, err := q.client.get().ClientList(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}

	var workers []WorkerInfo

	for entry := range strings.Lines(list) {
		fields := clientFields(entry)

		name, ok := strings.CutPrefix(fields["name"], q.keys.clientName(""))
		if !ok {
			continue
		}

		named, isNamed := strings.CutPrefix(name, ":w:")
		if name != "" && !isNamed {
			continue
		}

		workers = append(workers, WorkerInfo{
			Name: named, Addr: fields["addr"], ID: fields["id"], Age: seconds(fields["age"]), Idle: seconds(fields["idle"]),
		})
	}

	return workers, nil
}

func clientFields(entry string) map[string]string {
	fields := make(map[string]string)

	for part := range strings.FieldsSeq(entry) {
		if name, value, ok := strings.Cut(part, "="); ok {
			fields[name] = value
		}
	}

	return fields
}

func seconds(s string) time.Duration {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}

	return time.Duration(n) * time.Second
}
