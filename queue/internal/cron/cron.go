// Package cron computes when a cron pattern fires next, in the words and with the results of npm's cron-parser 5, which BullMQ uses: a
// schedule that one library began has to be continued by the other on the same minute.
//
// A pattern has six fields – second, minute, hour, day of month, month, day of week – of which the leading ones may be missing (second 0,
// the others any). A field is a list of values, ranges and steps: 5  1-5  */15  10-50/20  3/10 (from 3 on)  MON,FRI. L is the last day
// of the month, 5L the last Friday, 5#3 the third Friday. H is a value that the seed chooses, also of
// a range, H(9-17), or with a step, H/15. If both day fields are restricted, one of them has to fit. Words such as
// @daily stand for whole patterns. Neither robfig/cron nor its relatives read all of this, and none of them treats the change of clocks
// as cron-parser does:
//
//   - An hour that the clocks skip is made up for in the hour after the gap.
//   - An hour that the clocks repeat counts once, unless the pattern fires in every hour.
//
// The tests compare with cron-parser itself.
package cron

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// ErrPattern says that a pattern can't be read.
var ErrPattern = errors.New("bad cron pattern")

// Schedule is a pattern that has been read.
type Schedule struct {
	second, minute, hour, month, day, weekday set

	dayAny, weekdayAny bool
	lastDay            bool  // the last day of the month fits, too
	lastWeekdays       []int // of these weekdays the last one of the month fits, too
	nth                int   // a weekday fits only the nth time in the month; 0: always
}

// set is a set of small numbers.
type set uint64

func (s set) has(n int) bool { return n >= 0 && n < 64 && s&(1<<n) != 0 }

func (s set) size() int { return bits.OnesCount64(uint64(s)) }

func (s set) least() int { return bits.TrailingZeros64(uint64(s)) }

// after is the least member above n.
func (s set) after(n int) (int, bool) {
	rest := s >> (n + 1) << (n + 1)

	return rest.least(), rest != 0
}

const maxLength = 1024

var words = map[string]string{
	"@yearly": "0 0 0 1 1 *", "@annually": "0 0 0 1 1 *", "@monthly": "0 0 0 1 * *", "@weekly": "0 0 0 * * 0", "@daily": "0 0 0 * * *",
	"@hourly": "0 0 * * * *", "@minutely": "0 * * * * *", "@secondly": "* * * * * *", "@weekdays": "0 0 0 * * 1-5",
	"@weekends": "0 0 0 * * 0,6",
}

// names are understood in the fields of months and of weekdays alike.
var names = map[string]int{
	"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
	"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6,
}

// field is what a place of the pattern allows.
type field struct {
	name     string
	min, max int
	named    bool
	last     bool // L
}

var fields = [...]field{
	{name: "second", max: 59},
	{name: "minute", max: 59},
	{name: "hour", max: 23},
	{name: "day of month", min: 1, max: 31, last: true},
	{name: "month", min: 1, max: 12, named: true},
	{name: "day of week", max: 7, named: true, last: true},
}

const (
	placeDay = 3 + iota
	placeMonth
	placeWeekday
)

// Parse reads a pattern. The seed chooses the values of H; without one they are chosen anew each time.
func Parse(pattern, seed string) (*Schedule, error) {
	if len(pattern) > maxLength {
		return nil, fmt.Errorf("%w: longer than %d characters", ErrPattern, maxLength)
	}

	if long, ok := words[pattern]; ok {
		pattern = long
	}

	texts := strings.Fields(pattern)
	if len(texts) == 0 || len(texts) > len(fields) {
		return nil, fmt.Errorf("%w: %d fields, want up to %d", ErrPattern, len(texts), len(fields))
	}

	missing := []string{"0", "*", "*", "*", "*", "*"}
	texts = append(missing[:len(fields)-len(texts)], texts...)

	s := &Schedule{dayAny: isAny(texts[placeDay]), weekdayAny: isAny(texts[placeWeekday])}
	if err := s.read(texts, newLot(seed)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPattern, err)
	}

	return s, s.possible()
}

func isAny(text string) bool { return text == "*" || text == "?" }

func (s *Schedule) read(texts []string, l *lot) (err error) {
	if texts[placeWeekday], s.nth, err = cutNth(texts[placeWeekday]); err != nil {
		return err
	}

	drawn := l.drawAll()

	for i, to := range []*set{&s.second, &s.minute, &s.hour, &s.day, &s.month, &s.weekday} {
		if texts[i], err = fields[i].choose(texts[i], drawn[i]); err != nil {
			return fmt.Errorf("%s: %w", fields[i].name, err)
		}

		last, err := fields[i].read(texts[i], to)
		if err != nil {
			return fmt.Errorf("%s %q: %w", fields[i].name, texts[i], err)
		}

		switch {
		case !last:
		case i == placeDay:
			s.lastDay = true
		case slices.Contains(strings.Split(texts[i], ","), "L"):
			return errors.New("an L needs a day of week before it")
		default:
			s.setLastWeekdays(texts[i])
		}
	}

	return nil
}

// cutNth reads the occurrence behind a #.
func cutNth(text string) (rest string, nth int, err error) {
	rest, after, found := strings.Cut(text, "#")
	if !found {
		return text, 0, nil
	}

	nth, err = strconv.Atoi(after)
	if err != nil || nth < 1 || nth > 5 || strings.ContainsAny(rest, ",-/") {
		return "", 0, fmt.Errorf("day of week %q: # needs one weekday and 1 to 5", text)
	}

	return rest, nth, nil
}

// setLastWeekdays: with an L in the field, each of its plain values also means the last such day.
func (s *Schedule) setLastWeekdays(text string) {
	for part := range strings.SplitSeq(expandNames(text), ",") {
		if len(part) > 1 && strings.HasSuffix(part, "L") {
			s.lastWeekdays = append(s.lastWeekdays, int(part[0]-'0')%7)
		}
	}

	for d := range 8 {
		if s.weekday.has(d) {
			s.lastWeekdays = append(s.lastWeekdays, d%7)
		}
	}
}

// possible refuses a day that its only month never has.
func (s *Schedule) possible() error {
	if s.month.size() != 1 || s.lastDay || !s.weekdayAny {
		return nil
	}

	if month := s.month.least(); s.day.least() > longest(month) {
		return fmt.Errorf("%w: month %d has no day %d", ErrPattern, month, s.day.least())
	}

	return nil
}

// longest is how many days a month can have.
func longest(month int) int {
	return [...]int{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
}

// read puts the field's numbers into a set; last: there is an L.
func (f *field) read(text string, to *set) (last bool, err error) {
	if f.named {
		text = expandNames(text)
	}

	allowed := "0123456789?,*/-"
	if f.last {
		allowed += "L"
	}

	if strings.Trim(text, allowed) != "" {
		return false, errors.New("strange characters")
	}

	last = strings.Contains(text, "L")
	all := strconv.Itoa(f.min) + "-" + strconv.Itoa(f.max)
	text = strings.NewReplacer("*", all, "?", all).Replace(text)

	for part := range strings.SplitSeq(text, ",") {
		found, err := f.part(part)
		if err != nil {
			return false, err
		}

		if found&*to != 0 {
			return false, errors.New("the same value twice")
		}

		*to |= found
	}

	return last, nil
}

// part reads one member of the list: a value, a range, or either with a step.
func (f *field) part(text string) (set, error) {
	span, stepText, stepped := strings.Cut(text, "/")
	if !stepped && !strings.Contains(span, "-") {
		return f.single(text)
	}

	step := 1
	if stepped {
		if step = leadingInt(stepText); step <= 0 || strings.Contains(stepText, "/") {
			return 0, errors.New("a step has to be positive")
		}
	}

	if !strings.Contains(span, "-") {
		span += "-" + strconv.Itoa(f.max)
	}

	ends := strings.Split(span, "-")
	from, to := leadingInt(ends[0]), leadingInt(ends[1])

	if from < f.min || to > f.max || from > to {
		return 0, fmt.Errorf("range outside of %d-%d or the wrong way round", f.min, f.max)
	}

	var found set
	for n := from; n <= to; n += step {
		found |= 1 << n
	}

	if f.isWeekday() && to%7 == 0 && (to-from)%step == 0 {
		found |= 1 // Sunday has two numbers
	}

	return found, nil
}

func (f *field) single(text string) (set, error) {
	if f.last && strings.Contains(text, "L") {
		digits, ok := strings.CutSuffix(text, "L")
		if !ok || len(digits) > 2 || strings.Trim(digits, "0123456789") != "" {
			return 0, errors.New("an L stands alone or behind a number")
		}

		return 0, nil
	}

	n, err := strconv.Atoi(text)
	if err != nil || n < f.min || n > f.max {
		return 0, fmt.Errorf("%q is not between %d and %d", text, f.min, f.max)
	}

	if f.isWeekday() {
		n %= 7
	}

	return 1 << n, nil
}

func (f *field) isWeekday() bool { return f.max == 7 }

// leadingInt is the number that the text begins with, -1 without one.
func leadingInt(text string) int {
	end := 0
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}

	n, err := strconv.Atoi(text[:end])
	if err != nil {
		return -1
	}

	return n
}

// expandNames puts numbers in the place of the names of months and weekdays. Unknown ones stay, and are refused later.
func expandNames(text string) string {
	var b strings.Builder

	for i := 0; i < len(text); {
		if i+3 <= len(text) {
			if n, ok := names[strings.ToLower(text[i:i+3])]; ok {
				b.WriteString(strconv.Itoa(n))

				i += 3

				continue
			}
		}

		b.WriteByte(text[i])
		i++
	}

	return b.String()
}
