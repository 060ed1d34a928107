package cron

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
)

// hashed is an H: a value that the seed chooses, of the whole field or of a range, or with a step the place of the step's first value.
var hashed = regexp.MustCompile(`H(?:\(([0-9]+)-([0-9]+)\))?(?:/([0-9]+))?`)

// lot draws numbers from 0 up to 1, the same ones for the same seed, and the same as cron-parser: FNV-1a of the seed's UTF-16 units feeds
// the generator called mulberry32.
type lot struct{ state uint32 }

func newLot(seed string) *lot {
	if seed == "" {
		return &lot{state: rand.Uint32()}
	}

	h := uint32(2166136261)

	for _, unit := range utf16.Encode([]rune(seed)) {
		h ^= uint32(unit)
		h *= 16777619
	}

	return &lot{state: h}
}

func (l *lot) draw() float64 {
	l.state += 0x6d2b79f5
	t := l.state
	t = (t ^ t>>15) * (t | 1)
	t ^= t + (t^t>>7)*(t|61)

	return float64(t^t>>14) / (1 << 32)
}

// drawAll draws one number for each field. The month's turn comes before that of the day.
func (l *lot) drawAll() (all [len(fields)]float64) {
	for _, i := range []int{0, 1, 2, placeMonth, placeDay, placeWeekday} {
		all[i] = l.draw()
	}

	return all
}

// choose puts values in the place of the field's H.
func (f *field) choose(text string, drawn float64) (string, error) {
	var bad error

	text = hashed.ReplaceAllStringFunc(text, func(one string) string {
		parts := hashed.FindStringSubmatch(one)
		from, to := f.min, f.max

		if parts[1] != "" {
			low, high := leadingInt(parts[1]), leadingInt(parts[2])
			if from, to = max(low, f.min), min(high, f.max); low > high || from > to {
				bad = errors.New("no value in the range of an H")
			}
		}

		if parts[3] == "" {
			return valueBetween(from, to, drawn)
		}

		step := leadingInt(parts[3])
		if step <= 0 {
			bad = errors.New("a step has to be positive")
			return ""
		}

		return steps(from, to, step, drawn)
	})

	return text, bad
}

func valueBetween(from, to int, drawn float64) string {
	return strconv.Itoa(from + int(drawn*float64(to-from+1)))
}

// steps are the values in the range that lie where the draw has put them in each step, counted from 0; one value if there is none.
func steps(from, to, step int, drawn float64) string {
	var all []string

	for n := from/step*step + int(drawn*float64(step)); n <= to; n += step {
		if n >= from {
			all = append(all, strconv.Itoa(n))
		}
	}

	if len(all) == 0 {
		return valueBetween(from, to, drawn)
	}

	return strings.Join(all, ",")
}
