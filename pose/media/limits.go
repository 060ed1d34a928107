package media

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Limits bound what is decoded.
type Limits struct {
	// MaxSide is the longest side of a picture in pixels, stored or shown. Default 8192, at least 16.
	MaxSide int
	// MaxPixels is the largest area of a picture in pixels. Default 36,000,000, at least 256.
	MaxPixels int
	// MaxDuration is the longest clip. Default 30 minutes, at least 1 second.
	MaxDuration time.Duration
}

// DefaultLimits are the limits of the contract.
func DefaultLimits() Limits {
	return Limits{MaxSide: 8192, MaxPixels: 36_000_000, MaxDuration: 30 * time.Minute}
}

// Validate reports all values that are out of bounds.
func (l Limits) Validate() error {
	var errs []error
	if l.MaxSide < 16 {
		errs = append(errs, fmt.Errorf("max side %d is below 16", l.MaxSide))
	}
	if l.MaxPixels < 256 {
		errs = append(errs, fmt.Errorf("max pixels %d is below 256", l.MaxPixels))
	}
	if l.MaxDuration < time.Second {
		errs = append(errs, fmt.Errorf("max duration %s is below 1s", l.MaxDuration))
	}
	return errors.Join(errs...)
}

// LimitsFromEnv reads POSEFLEET_MAX_SIDE, POSEFLEET_MAX_PIXELS and POSEFLEET_MAX_DURATION with getenv. An error names the
// variables at fault.
func LimitsFromEnv(getenv func(string) string) (Limits, error) {
	l := DefaultLimits()
	var errs []error
	number := func(name string, into *int) {
		text := getenv(name)
		if text == "" {
			return
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %q is not a whole number", name, text))
			return
		}
		*into = n
	}
	number("POSEFLEET_MAX_SIDE", &l.MaxSide)
	number("POSEFLEET_MAX_PIXELS", &l.MaxPixels)
	if text := getenv("POSEFLEET_MAX_DURATION"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("POSEFLEET_MAX_DURATION: %q is not a duration such as 30m", text))
		}
		l.MaxDuration = d
	}
	if len(errs) == 0 {
		if err := l.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("POSEFLEET_MAX_SIDE, _PIXELS, _DURATION: %w", err))
		}
	}
	return l, errors.Join(errs...)
}

// size checks one picture size.
func (l Limits) size(w, h int) error {
	if w > l.MaxSide || h > l.MaxSide || w*h > l.MaxPixels {
		return faultf(CodeTooLarge, "the picture of %d×%d pixels is larger than %d a side or %d pixels in all", w, h, l.MaxSide, l.MaxPixels)
	}
	return nil
}

// duration checks a length in ms.
func (l Limits) duration(ms float64) error {
	if ms > float64(l.MaxDuration.Milliseconds()) {
		return faultf(CodeTooLong, "the clip of %.0f s is longer than %s", ms/1000, l.MaxDuration)
	}
	return nil
}
