// Package doctor is what "posefleet doctor" does: it looks at a deployment from the place of one of its parts and says in one line each
// what is wrong and how to mend it. It finds above all what no part notices by itself: a queue that nobody reads because producers and
// workers name it differently, a Redis that evicts locks, secrets that differ, clocks that drift apart.
//
//	areas, all at once, each with a bound     findings, in the order of the areas
//	┌───────────────┐
//	│ configuration │─┐
//	│ redis         │ ├──▶ ok    redis: …
//	│ control plane │ │    FAIL  eviction: … → …
//	│ …             │─┘    warn  bullmq: …
//	└───────────────┘
//
// An area that can't be examined because of what another one says keeps silent. Nothing is changed anywhere: Redis is read, the control
// plane is asked for a claim that can't exist. No secret and no URL with a query is ever shown; fingerprints of secrets are.
package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Level is how bad a finding is.
type Level string

// Levels.
const (
	OK   Level = "ok"
	Warn Level = "warn" // it works, or will until something else happens
	Fail Level = "fail" // the deployment does not do its work
)

// Finding is one line.
type Finding struct {
	// Name of what was examined; stable, for scripts.
	Name  string `json:"name"`
	Level Level  `json:"level"`
	// What was found, and how to Mend it if it is not OK.
	What string `json:"what"`
	Mend string `json:"mend,omitempty"`
}

// String is the line for people: "FAIL  name: what → mend".
func (f Finding) String() string {
	level := string(f.Level)
	if f.Level == Fail {
		level = "FAIL"
	}

	text := fmt.Sprintf("%-4s  %s: %s", level, f.Name, f.What)
	if f.Mend != "" {
		text += " → " + f.Mend
	}

	return oneLine(text)
}

func good(name, format string, args ...any) Finding {
	return Finding{Name: name, Level: OK, What: fmt.Sprintf(format, args...)}
}

func warning(name, mend, format string, args ...any) Finding {
	return Finding{Name: name, Level: Warn, What: fmt.Sprintf(format, args...), Mend: mend}
}

func failure(name, mend, format string, args ...any) Finding {
	return Finding{Name: name, Level: Fail, What: fmt.Sprintf(format, args...), Mend: mend}
}

// Summary counts the findings.
type Summary struct {
	OK     int `json:"ok"`
	Warned int `json:"warned"`
	Failed int `json:"failed"`
}

func (s *Summary) count(f Finding) {
	switch f.Level {
	case OK:
		s.OK++
	case Warn:
		s.Warned++
	case Fail:
		s.Failed++
	}
}

// area is a part of the deployment that is examined by itself.
type area struct {
	name string
	// bound is how long it may take; its context ends then.
	bound time.Duration
	// examine looks. It must come back soon after its context has ended; one that does not is left behind.
	examine func(context.Context) []Finding
}

// slack is how long an area may take to notice that its context has ended.
const slack = time.Second

// run examines all areas at once and reports their findings in order.
func run(ctx context.Context, areas []area, report func(Finding)) Summary {
	results := make([]chan []Finding, len(areas))

	for i, a := range areas {
		results[i] = make(chan []Finding, 1)

		// Ends with the area's bound; see examine.
		go func() {
			ctx, cancel := context.WithTimeout(ctx, a.bound)
			defer cancel()

			results[i] <- a.examine(ctx)
		}()
	}

	started := time.Now()

	var sum Summary

	for i, a := range areas {
		for _, f := range await(results[i], time.Until(started.Add(a.bound+slack)), a) {
			sum.count(f)
			report(f)
		}
	}

	return sum
}

func await(result <-chan []Finding, left time.Duration, a area) []Finding {
	timer := time.NewTimer(max(left, 0))
	defer timer.Stop()

	select {
	case found := <-result:
		return found
	case <-timer.C:
	}

	select { // it was ready, only we came late
	case found := <-result:
		return found
	default:
		return []Finding{failure(a.name, "look at the load of this machine and its disks", "no answer within %s", a.bound)}
	}
}

// oneLine keeps what comes from elsewhere from breaking or colouring the output.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0:
			return -1
		}

		return r
	}, strings.ToValidUTF8(s, "?"))
}
