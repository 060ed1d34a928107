package cron

import (
	"slices"
	"time"
)

// maxSteps bounds the search, as cron-parser does: a pattern that fires less than about once in a century fires never.
const maxSteps = 9999

// Next is the first time after a moment at which the pattern fires on the clocks of loc; false if it never does.
func (s *Schedule) Next(after time.Time, loc *time.Location) (time.Time, bool) {
	w := newWalk(after, loc, s.hour.size() == 24)
	begin := after.UnixMilli()

	for range maxSteps {
		switch {
		case !s.month.has(w.month()):
			w.toNextMonth()
		case !s.dayFits(w):
			w.toNextDay()
		case !s.hourFits(w):
		case !s.minute.has(w.local.Minute()):
			s.toNextMinute(w)
		case !s.second.has(w.local.Second()):
			s.toNextSecond(w)
		case w.local.UnixMilli() == begin:
			w.advance(time.Second)
		default:
			return w.local, true
		}
	}

	return time.Time{}, false
}

// dayFits: of two restricted day fields one has to fit, of one restricted that one.
func (s *Schedule) dayFits(w *walk) bool {
	switch {
	case s.weekdayAny:
		return s.dayOfMonthFits(w)
	case s.dayAny:
		return s.weekdayFits(w)
	}

	return s.dayOfMonthFits(w) || s.weekdayFits(w)
}

func (s *Schedule) dayOfMonthFits(w *walk) bool {
	return s.day.has(w.local.Day()) || s.lastDay && w.local.Day() == w.daysInMonth()
}

func (s *Schedule) weekdayFits(w *walk) bool {
	weekday, day := int(w.local.Weekday()), w.local.Day()
	if s.weekday.has(weekday) && (s.nth == 0 || (day+6)/7 == s.nth) {
		return true
	}

	if day <= w.daysInMonth()-7 {
		return false
	}

	return slices.Contains(s.lastWeekdays, weekday)
}

// hourFits reports whether the hour fits; if not, it moves on towards the next one that may.
func (s *Schedule) hourFits(w *walk) bool {
	hour := w.local.Hour()

	if w.gap && w.gapEnd == hour {
		for skipped := w.gapStart; skipped != hour; skipped = (skipped + 1) % 24 {
			if s.hour.has(skipped) {
				return true
			}
		}
	}

	if w.repeats && w.repeated == hour {
		w.repeats = false
		w.advance(time.Hour)

		return false
	}

	if s.hour.has(hour) {
		return true
	}

	w.gap = false

	next, ok := s.hour.after(hour)
	if !ok {
		w.toNextDay()
		return false
	}

	s.toHour(w, next)

	return false
}

// toHour goes to the beginning of a later hour of the day. On a day on which the clocks change it goes by single hours, so that the
// change is noticed.
func (s *Schedule) toHour(w *walk, next int) {
	if !w.clocksChange() {
		w.set(next, w.local.Minute(), w.local.Second())
	} else {
		for range next - w.local.Hour() {
			if w.advance(time.Hour); w.local.Hour() >= next {
				break
			}
		}
	}

	w.set(w.local.Hour(), s.minute.least(), w.local.Second())
	w.set(w.local.Hour(), w.local.Minute(), s.second.least())
}

func (s *Schedule) toNextMinute(w *walk) {
	minute, ok := s.minute.after(w.local.Minute())
	if !ok {
		w.advance(time.Hour)

		minute = s.minute.least()
	}

	w.set(w.local.Hour(), minute, w.local.Second())
	w.set(w.local.Hour(), w.local.Minute(), s.second.least())
}

func (s *Schedule) toNextSecond(w *walk) {
	second, ok := s.second.after(w.local.Second())
	if !ok {
		w.advance(time.Minute)

		second = s.second.least()
	}

	w.set(w.local.Hour(), w.local.Minute(), second)
}

// walk is a moment on local clocks that moves forward, and what it has met on its way.
type walk struct {
	local time.Time // whole seconds
	every bool      // the pattern fires in every hour, so that changes of clocks don't matter

	gap              bool // clocks were put forward:
	gapStart, gapEnd int  // the first hour that was skipped, and the one after the gap
	repeats          bool // clocks were put back:
	repeated         int  // this hour begins a second time
}

func newWalk(from time.Time, loc *time.Location, every bool) *walk {
	w := &walk{local: from.In(loc).Truncate(time.Second), every: every}
	if from.UnixMilli()%1000 != 0 {
		w.advance(time.Second)
	}

	return w
}

func (w *walk) month() int { return int(w.local.Month()) }

func (w *walk) daysInMonth() int {
	return time.Date(w.local.Year(), w.local.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// advance goes on by an hour, to its beginning; by a minute, to its beginning; or by a second. It notes changes of clocks on the way.
func (w *walk) advance(unit time.Duration) {
	hour, offset := w.local.Hour(), w.offset()
	w.local = w.local.Add(unit)

	switch unit {
	case time.Hour:
		w.set(w.local.Hour(), 0, 0)
	case time.Minute:
		w.set(w.local.Hour(), w.local.Minute(), 0)
	}

	if w.every {
		return
	}

	passed := (w.local.Hour() - hour + 24) % 24

	switch {
	case w.offset() > offset && passed >= 2: // a whole hour at least is missing
		w.gap, w.gapStart, w.gapEnd = true, (hour+1)%24, w.local.Hour()
	case passed == 0 && w.local.Minute() == 0 && w.local.Second() == 0:
		w.repeats, w.repeated = true, w.local.Hour()
	}
}

func (w *walk) toNextMonth() {
	year, month := w.local.Year(), w.local.Month()+1
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
	w.to(year, month, min(w.local.Day(), last), w.local.Hour(), w.local.Minute(), w.local.Second())
	w.to(w.local.Year(), w.local.Month(), 1, 0, 0, 0)
}

func (w *walk) toNextDay() {
	w.to(w.local.Year(), w.local.Month(), w.local.Day()+1, w.local.Hour(), w.local.Minute(), w.local.Second())
	w.set(0, 0, 0)
}

// clocksChange reports whether the day begins and ends with different offsets.
func (w *walk) clocksChange() bool {
	begin, end := *w, *w
	begin.set(0, 0, 0)
	end.toNextDay()
	end.local = end.local.Add(-time.Second)

	return begin.offset() != end.offset()
}

func (w *walk) set(hour, minute, second int) {
	w.to(w.local.Year(), w.local.Month(), w.local.Day(), hour, minute, second)
}

func (w *walk) offset() int {
	_, offset := w.local.Zone()

	return offset
}

// to puts the clock to a local time. Of a time that comes twice it prefers the one with the offset of now; a time that the clocks skip
// is counted on from before the gap. time.Date decides otherwise.
func (w *walk) to(year int, month time.Month, day, hour, minute, second int) {
	loc := w.local.Location()
	naive := time.Date(year, month, day, hour, minute, second, 0, time.UTC)
	at := func(offset int) (time.Time, int) {
		t := naive.Add(-time.Duration(offset) * time.Second).In(loc)
		_, is := t.Zone()

		return t, is
	}

	t, found := at(w.offset())
	if found != w.offset() {
		var third int
		if t, third = at(found); third != found {
			t, _ = at(min(found, third))
		}
	}

	w.local = t
}
