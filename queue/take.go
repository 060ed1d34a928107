package queue

import (
	"fmt"
	"time"
)

// Why a take ended; see take() in lua/include/take.lua.
const (
	tookAll     = "full"
	tookLimited = "limited"
	tookHeld    = "held"
	tookNone    = "none"
)

// taken is the answer of a take.
type taken struct {
	end  string // tookAll, …
	jobs []takenJob
	wait time.Duration // tookLimited: how long
	due  int64         // tookNone: ms of the first delayed job, 0 = there is none
	gone int           // ids without a job that were thrown away
}

// takenJob is a job that has just become ours, as it came.
type takenJob struct {
	id     string
	fields []any // field, value, …
}

func (t *takenJob) decode() (*Job, error) { return decodeJob(t.id, pairs(t.fields)) }

func parseTaken(reply any) (*taken, error) {
	parts, ok := reply.([]any)
	if !ok || len(parts) < 4 {
		return nil, fmt.Errorf("take: %w: %T", errBadReply, reply)
	}

	t := &taken{}
	t.end, _ = parts[0].(string)
	n, _ := parts[1].(int64)
	gone, _ := parts[2].(int64)
	t.gone = int(gone)
	t.jobs = parseJobs(parts[3])

	switch t.end {
	case tookAll, tookHeld:
	case tookLimited:
		t.wait = time.Duration(n) * time.Millisecond
	case tookNone:
		t.due = n
	default:
		return nil, fmt.Errorf("take: %w: %q", errBadReply, t.end)
	}

	return t, nil
}

// parseJobs reads id, fields, id, fields, …
func parseJobs(reply any) []takenJob {
	flat, _ := reply.([]any)
	jobs := make([]takenJob, 0, len(flat)/2)

	for i := 0; i+1 < len(flat); i += 2 {
		id, _ := flat[i].(string)
		fields, _ := flat[i+1].([]any)
		jobs = append(jobs, takenJob{id: id, fields: fields})
	}

	return jobs
}
