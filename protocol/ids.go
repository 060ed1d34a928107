package protocol

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// MaxIDLength is the longest analysis id, in bytes.
const MaxIDLength = 128

var idPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

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
// A-Z a-z 0-9 _ -, not an integer (BullMQ refuses those as custom job ids), not a reserved key suffix.
func ValidateID(id string) error {
	if !idPattern.MatchString(id) {
		return NewFault(CodeInvalidID, "an analysis id is 1 to 128 characters of A-Z, a-z, 0-9, _ and -")
	}
	if n, err := strconv.ParseInt(id, 10, 64); err == nil && strconv.FormatInt(n, 10) == id {
		return NewFault(CodeInvalidID, "an analysis id is not an integer")
	}
	if isBigInteger(id) {
		return NewFault(CodeInvalidID, "an analysis id is not an integer")
	}
	if slices.Contains(reservedIDs, id) {
		return NewFault(CodeInvalidID, fmt.Sprintf("%q is reserved by the queue's key layout", id))
	}
	return nil
}

// isBigInteger tells whether id is an integer in canonical form that does not fit 64 bits.
func isBigInteger(id string) bool {
	digits := id
	if len(digits) > 1 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) < 19 || digits[0] == '0' {
		return false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
