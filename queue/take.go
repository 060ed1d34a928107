package queue

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
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
	id      string
	fields  []string // field, value, …; nil: it was as it was added
	added   [addedFields]string
	started time.Time // if it was as it was added
}

// Fields of a job as it was added.
const (
	addedName = iota
	addedData
	addedOpts
	addedTimestamp
	addedDelay
	addedPriority
	addedFields // how many
)

// Above this an answer is not kept in memory for the sake of the one job of it that runs longest.
const sharedAnswer = 8 << 10

// asAdded: nothing is known of the job but what every job has.
func (t *takenJob) asAdded() bool { return t.fields == nil }

// decode reads the job; worker is the name of the one that has taken it.
func (t *takenJob) decode(worker string) (*Job, error) {
	if !t.asAdded() {
		return decodeJob(t.id, pairs(t.fields))
	}

	j := &Job{
		ID: t.id, Name: t.added[addedName], Data: json.RawMessage(t.added[addedData]), Timestamp: moment(t.added[addedTimestamp]),
		Delay: duration(number(t.added[addedDelay])), Priority: count(t.added[addedPriority]), AttemptsStarted: 1, ProcessedOn: t.started,
		ProcessedBy: worker,
	}

	return j, j.readOptions(t.added[addedOpts])
}

func parseTaken(reply any) (*taken, error) {
	parts, ok := reply.([]any)
	if !ok || len(parts) < 5 {
		return nil, fmt.Errorf("take: %w: %T", errBadReply, reply)
	}

	t := &taken{}
	t.end, _ = parts[0].(string)
	n, _ := parts[1].(int64)
	gone, _ := parts[2].(int64)
	t.gone = int(gone)
	now, _ := parts[4].(string)

	var err error
	if t.jobs, err = parseJobs(parts[3], now); err != nil {
		return nil, err
	}

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

// parseJobs reads jobs as take() in lua/include/take.lua packs them.
func parseJobs(reply any, now string) ([]takenJob, error) {
	text, ok := reply.(string)
	if !ok {
		return nil, fmt.Errorf("jobs: %w: %T", errBadReply, reply)
	}

	if text == "" {
		return nil, nil
	}

	p := packed{rest: text, clone: len(text) > sharedAnswer}
	n := p.array()
	jobs := make([]takenJob, 0, n/2)
	started := moment(now)

	var common [addedFields]string // of jobs as they were added, until it is told anew

	for n > 1 && !p.broken {
		switch p.kind() {
		case packedTrue:
			p.head(0)

			for _, i := range []int{addedName, addedOpts, addedDelay, addedPriority} {
				common[i] = p.text()
				n--
			}

			n--
		case packedFalse:
			p.head(0)

			common[addedTimestamp] = p.text()
			n -= 2
		default:
			jobs = append(jobs, p.job(common, started))
			n -= 2
		}
	}

	if n != 0 || p.broken || p.rest != "" {
		return nil, fmt.Errorf("jobs: %w: %d bytes", errBadReply, len(text))
	}

	return jobs, nil
}

// job reads the id of a job and its fields, or its data if it was as it was added.
func (p *packed) job(common [addedFields]string, started time.Time) takenJob {
	t := takenJob{id: p.text(), started: started}

	if !p.isArray() {
		t.added = common
		t.added[addedData] = p.text()

		return t
	}

	t.fields = make([]string, p.array())
	for i := range t.fields {
		t.fields[i] = p.text()
	}

	return t
}

// packed reads texts and arrays of MessagePack. Once broken, it reads nothing any more.
type packed struct {
	rest   string
	clone  bool // texts are to be copies
	broken bool
}

// head takes a kind and a length of so many bytes.
func (p *packed) head(size int) int {
	if len(p.rest) < 1+size {
		return p.fail()
	}

	var n [4]byte

	copy(n[4-size:], p.rest[1:])
	p.rest = p.rest[1+size:]

	return int(binary.BigEndian.Uint32(n[:]))
}

func (p *packed) fail() int {
	p.broken, p.rest = true, ""

	return 0
}

func (p *packed) kind() byte {
	if p.rest == "" {
		return 0
	}

	return p.rest[0]
}

// Kinds of MessagePack that mean what has changed.
const packedFalse, packedTrue = 0xc2, 0xc3

func (p *packed) isArray() bool {
	k := p.kind()

	return k&0xf0 == 0x90 || k == 0xdc || k == 0xdd
}

// array is the length of the array that begins here. It is no more than there are bytes.
func (p *packed) array() int {
	var n int

	switch k := p.kind(); {
	case k&0xf0 == 0x90:
		n = p.head(0) + int(k&0x0f)
	case k == 0xdc:
		n = p.head(2)
	case k == 0xdd:
		n = p.head(4)
	default:
		return p.fail()
	}

	if n > len(p.rest) {
		return p.fail()
	}

	return n
}

func (p *packed) text() string {
	var n int

	switch k := p.kind(); {
	case k&0xe0 == 0xa0:
		n = p.head(0) + int(k&0x1f)
	case k == 0xd9:
		n = p.head(1)
	case k == 0xda:
		n = p.head(2)
	case k == 0xdb:
		n = p.head(4)
	default:
		p.fail()
	}

	if n > len(p.rest) {
		n = p.fail()
	}

	text := p.rest[:n]
	p.rest = p.rest[n:]

	if p.clone {
		text = strings.Clone(text)
	}

	return text
}
