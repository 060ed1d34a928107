package worker

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as 512MiB, 2GiB or a plain number.
type Size int64

// sizeUnits are tried in this order: longer names first.
var sizeUnits = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
}

// UnmarshalText reads a size. Units are binary (KiB MiB GiB TiB) or decimal (KB MB GB TB); none means bytes.
func (s *Size) UnmarshalText(text []byte) error {
	number, unit := strings.TrimSpace(string(text)), 1.0
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(v) || v < 0 || v*unit >= math.MaxInt64 {
		return errors.New("write it as 512MiB or 2GiB")
	}
	*s = Size(v * unit)
	return nil
}
