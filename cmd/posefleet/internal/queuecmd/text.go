package queuecmd

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// oneLine makes text fit into one line of a terminal: no line ends, nothing that moves the cursor, colours, or turns the direction of
// writing. Job logs and errors come from clips and programs that nobody here has checked.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t' || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r):
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return '·'
		}

		return r
	}, strings.ToValidUTF8(s, "?"))
}

// lines is text of several lines, each made harmless.
func lines(s string) []string {
	var out []string
	for part := range strings.Lines(s) {
		out = append(out, oneLine(strings.TrimRight(part, "\r\n")))
	}

	return out
}

// short cuts text to a column's width.
func short(s string, most int) string {
	runes := []rune(oneLine(s))
	if len(runes) <= most {
		return string(runes)
	}

	return string(runes[:most-1]) + "…"
}

// age is a duration with two units at most: 850ms, 12s, 3m5s, 2h10m, 3d4h.
func age(d time.Duration) string {
	const day = 24 * time.Hour

	switch d = max(d, 0); {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}

	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

// moment is a time for JSON: nil if there is none.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}

	u := t.UTC()

	return &u
}

// when is a time for people, with how long ago it was.
func when(t, now time.Time) string {
	const layout = "2006-01-02 15:04:05 MST"

	switch {
	case t.IsZero():
		return "-"
	case t.After(now):
		return fmt.Sprintf("%s (in %s)", t.UTC().Format(layout), age(t.Sub(now)))
	}

	return fmt.Sprintf("%s (%s ago)", t.UTC().Format(layout), age(now.Sub(t)))
}

// rawJSON passes stored JSON on as it is; text that is none becomes a string.
func rawJSON(text []byte) json.RawMessage {
	switch {
	case len(text) == 0:
		return nil
	case json.Valid(text):
		return text
	}

	quoted, _ := json.Marshal(strings.ToValidUTF8(string(text), "\uFFFD")) // strings always marshal

	return quoted
}
