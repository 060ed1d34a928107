package queue

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Faults of names, found before anything is sent.
var (
	// ErrBadName says that a queue name or prefix can't be used.
	ErrBadName = errors.New("bad queue name or prefix")
	// ErrBadJobID says that a custom job id can't be used.
	ErrBadJobID = errors.New("bad job id")
)

// keys builds every key of one queue. All of them start with prefix, a colon, the queue's name and a colon ("base"); job ids live in
// the same space as the suffixes:
//
//	base + id wait paused active prioritized pc delayed waiting-children completed failed   the states
//	base + marker stalled stalled-check limiter events meta repeat                          the machinery
//	base + de:<id> dn:<id>  metrics:completed metrics:failed (:data)                         deduplication, metrics
//	base + <job id>  with :lock :logs :dependencies :processed :failed :unsuccessful         one job
//
// The scripts in lua/ get the base as their only key and append to it.
type keys struct {
	prefix string
	name   string
	base   string
}

// suffixes of keys that Go code reads or writes by itself.
const (
	keyActive          = "active"
	keyCompleted       = "completed"
	keyDelayed         = "delayed"
	keyEvents          = "events"
	keyFailed          = "failed"
	keyLimiter         = "limiter"
	keyMarker          = "marker"
	keyMeta            = "meta"
	keyPaused          = "paused"
	keyPrioritized     = "prioritized"
	keyRepeat          = "repeat"
	keyWait            = "wait"
	keyWaitingChildren = "waiting-children"
)

// reservedIDs are the suffixes that a job id would collide with.
var reservedIDs = []string{
	"active", "wait", "waiting-children", "paused", "id", "delayed", "prioritized", "stalled-check", "completed", "failed",
	"stalled", "repeat", "limiter", "meta", "events", "pc", "marker", "de", "dn", "metrics", "priority", "delay",
}

var integerText = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

func newKeys(prefix, name string) (keys, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}

	switch {
	case name == "":
		return keys{}, fmt.Errorf("%w: the queue has no name", ErrBadName)
	case strings.Contains(name, ":"):
		return keys{}, fmt.Errorf("%w: queue name %q contains a colon", ErrBadName, name)
	}

	return keys{prefix: prefix, name: name, base: prefix + ":" + name + ":"}, nil
}

func (k keys) of(suffix string) string  { return k.base + suffix }
func (k keys) job(id string) string     { return k.base + id }
func (k keys) logs(id string) string    { return k.base + id + ":logs" }
func (k keys) schedule(s string) string { return k.base + "repeat:" + s }

// qualified is the queue's name as parents are told it.
func (k keys) qualified() string { return k.prefix + ":" + k.name }

// clientName is the connection name by which every BullMQ library finds a queue's workers. kind is "", ":w:<worker>" or ":qe".
func (k keys) clientName(kind string) string {
	return k.prefix + ":" + base64.StdEncoding.EncodeToString([]byte(k.name)) + kind
}

// hashTagged reports whether all keys of the queue share a Redis Cluster slot: there must be a non-empty {…} in prefix or name.
func (k keys) hashTagged() bool { return k.hashTag() != "" }

// hashTag is the part of the keys that chooses their slot, "" if there is none.
func (k keys) hashTag() string {
	_, after, found := strings.Cut(k.base, "{")
	tag, _, closed := strings.Cut(after, "}")

	if !found || !closed {
		return ""
	}

	return tag
}

// checkJobID refuses custom ids that BullMQ refuses and those that would collide with the queue's own keys.
func checkJobID(id string) error {
	switch {
	case slices.Contains(reservedIDs, id):
		return fmt.Errorf("%w: %q is one of the queue's own keys", ErrBadJobID, id)
	case isInteger(id):
		return fmt.Errorf("%w: %q is an integer, which automatic ids are", ErrBadJobID, id)
	case strings.Contains(id, ":"):
		return fmt.Errorf("%w: %q contains a colon", ErrBadJobID, id)
	}

	return nil
}

// isInteger reports whether JavaScript would print the parsed number just like the text.
func isInteger(id string) bool {
	if !integerText.MatchString(id) {
		return false
	}

	f, err := strconv.ParseFloat(id, 64)

	return err == nil && math.Abs(f) < 1e21 && strconv.FormatFloat(f, 'f', -1, 64) == id
}

// printable makes a worker name fit for CLIENT SETNAME, which refuses blanks and anything outside of printable ASCII.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r < '!' || r > '~' {
			return '-'
		}

		return r
	}, name)
}
