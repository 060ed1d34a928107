package queue

import (
	"fmt"
	"time"
)

// taken is the answer of the take script.
type taken struct {
	kind   string // job, limited, held, none
	id     string
	fields map[string]string
	wait   time.Duration // limited: how long
	due    int64         // none: ms of the first delayed job, 0 = there is none
	gone   int           // ids without a job that were thrown away
}

func parseTaken(reply any) (*taken, error) {
	parts, ok := reply.([]any)
	if !ok || len(parts) == 0 {
		return nil, fmt.Errorf("take: %w: %T", errBadReply, reply)
	}

	t := &taken{}
	t.kind, _ = parts[0].(string)

	integer := func(i int) int64 {
		if i >= len(parts) {
			return 0
		}

		n, _ := parts[i].(int64)

		return n
	}

	switch t.kind {
	case "job":
		t.setJob(parts[1:])
		t.gone = int(integer(3))
	case "limited":
		t.wait = time.Duration(integer(1)) * time.Millisecond
	case "none":
		t.due, t.gone = integer(1), int(integer(2))
	case "held":
	default:
		return nil, fmt.Errorf("take: %w: %q", errBadReply, t.kind)
	}

	return t, nil
}

func (t *taken) setJob(parts []any) {
	t.id, _ = parts[0].(string)

	if len(parts) > 1 {
		flat, _ := parts[1].([]any)
		t.fields = pairs(flat)
	}
}
