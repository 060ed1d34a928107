package protocol

import (
	"fmt"
	"regexp"
	"slices"
)

// MaxIDLength is the longest analysis id, in bytes.
const MaxIDLength = 128

var (
	idPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
	// integerPattern is what JavaScript's parseInt gives back unchanged; "007" is not, "NaN" is.
	integerPattern = regexp.MustCompile(`^(0|-?[1-9][0-9]*|NaN)$`)
	clipIDPattern  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)
	codePattern    = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	sha256Pattern  = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
)

// reservedIDs are BullMQ's key suffixes: a job with such an id would overwrite, or be hidden by, the queue's own
// keys (BullMQ does not refuse them all).
var reservedIDs = []string{
	"active", "wait", "waiting-children", "paused", "id", "delayed", "prioritized", "stalled-check", "completed",
	"failed", "stalled", "repeat", "limiter", "meta", "events", "pc", "marker", "de", "dn", "metrics", "priority",
	"delay",
}

// ReservedIDs returns the ids that are refused because BullMQ keeps keys of that name.
func ReservedIDs() []string { return slices.Clone(reservedIDs) }

// ValidateID returns a CodeInvalidID fault if id can't be an analysis id: 1 to 128 characters of
// A-Z a-z 0-9 _ -, not what BullMQ takes for an integer and refuses as a custom job id, not a reserved key suffix.
func ValidateID(id string) error {
	if !idPattern.MatchString(id) {
		return NewFault(CodeInvalidID, "an analysis id is 1 to 128 characters of A-Z, a-z, 0-9, _ and -")
	}
	if integerPattern.MatchString(id) {
		return NewFault(CodeInvalidID, "an analysis id is not an integer")
	}
	if slices.Contains(reservedIDs, id) {
		return NewFault(CodeInvalidID, fmt.Sprintf("%q is reserved by the queue's key layout", id))
	}
	return nil
}

// ValidClipID tells whether id can name a clip: 1 to 64 characters of A-Z a-z 0-9 . _ -, the first neither a dot
// nor a dash, since clip ids become file names and command arguments.
func ValidClipID(id string) bool { return clipIDPattern.MatchString(id) }
