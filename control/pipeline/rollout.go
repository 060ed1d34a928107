package pipeline

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/posefleet/posefleet/control/store"
)

// Rollout says which part of the analyses goes by HTTP. The same analysis always goes the same way, and one that goes by HTTP at some
// percentage also does at every higher one.
type Rollout struct {
	// HTTP is in hundredths of a percent, 0 to 10000.
	HTTP int
}

const allOfThem = 10000

var errRollout = errors.New("must be queue, http, or http:PERCENT% from 0 to 100")

// ParseRollout reads "queue", "http" or "http:25%"; "" is the queue.
func ParseRollout(s string) (Rollout, error) {
	switch s {
	case "", "queue":
		return Rollout{}, nil
	case "http":
		return Rollout{HTTP: allOfThem}, nil
	}
	text, ok := strings.CutPrefix(s, "http:")
	text, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(text, 64)
	if !ok || !percent || err != nil || !(share >= 0 && share <= 100) {
		return Rollout{}, fmt.Errorf("%w, not %q", errRollout, s)
	}

	return Rollout{HTTP: int(share*100 + 0.5)}, nil
}

// All tells whether nothing goes to the queue.
func (r Rollout) All() bool { return r.HTTP == allOfThem }

// Way is the way of an analysis.
func (r Rollout) Way(analysisID string) store.Way {
	sum := sha256.Sum256([]byte(analysisID))
	if int(binary.BigEndian.Uint32(sum[:])%allOfThem) < r.HTTP {
		return store.WayHTTP
	}

	return store.WayQueue
}
