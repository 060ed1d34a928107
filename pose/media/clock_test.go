package media

import (
	"math"
	"testing"
)

func stampsOf(values ...int64) []*int64 {
	out := make([]*int64, len(values))
	for i := range values {
		if values[i] != none {
			out[i] = &values[i]
		}
	}
	return out
}

// none is a frame without a stamp.
const none = math.MinInt64

func TestClock(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		clock     clock
		stamps    []*int64
		want      []float64
		estimated bool
		variable  bool
	}{
		{"starts at the first shown frame", clock{tick: 1, interval: 40}, stampsOf(7000, 7040, 7080), []float64{0, 40, 80}, false, false},
		{"starts after a negative stamp", clock{tick: 1, interval: 40}, stampsOf(-40, 0, 40), []float64{0, 40, 80}, false, false},
		{"keeps a variable rate", clock{tick: 1, interval: 40}, stampsOf(0, 10, 100, 110), []float64{0, 10, 100, 110}, false, true},
		{"does not take rounding for a variable rate", clock{tick: 1, interval: 33.33}, stampsOf(0, 33, 67, 100), []float64{0, 33, 67, 100}, false, false},
		{"fills in missing stamps", clock{tick: 1, interval: 40}, stampsOf(0, none, 80, none), []float64{0, 40, 80, 120}, true, false},
		{"counts missing stamps at the start", clock{tick: 1, interval: 40}, stampsOf(none, none, 5000, 5040), []float64{0, 40, 80, 120}, true, false},
		{"goes on after a jump back", clock{tick: 1, interval: 40}, stampsOf(1000, 1040, 0, 40, 80), []float64{0, 40, 80, 120, 160}, true, false},
		{"returns after one wrong stamp", clock{tick: 1, interval: 40}, stampsOf(0, 40, 10, 120, 160), []float64{0, 40, 80, 120, 160}, true, false},
		{"never stands still", clock{tick: 1, interval: 40}, stampsOf(0, 0, 40), []float64{0, 40, 80}, true, false},
		{"closes a splice", clock{tick: 1, interval: 40, jumps: true}, stampsOf(0, 40, 90_000_000, 90_000_040), []float64{0, 40, 80, 120}, true, false},
		{"keeps a long pause elsewhere", clock{tick: 1, interval: 40}, stampsOf(0, 40, 20_000), []float64{0, 40, 20_000}, false, true},
		{
			"does not believe the decoder's guesses",
			clock{tick: 1, interval: 33.3333, guessed: true},
			stampsOf(-1, 32, 65, 0, 33),
			[]float64{0, 33.3333, 66.6666, 99.9999, 132.9999},
			true, false,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := tt.clock
			for i, s := range tt.stamps {
				if got := c.next(s); math.Abs(got-tt.want[i]) > 0.001 {
					t.Errorf("time of frame %d is %v, want %v", i, got, tt.want[i])
				}
			}
			if c.estimated != tt.estimated || c.variable() != tt.variable {
				t.Errorf("estimated %v and variable %v, want %v and %v", c.estimated, c.variable(), tt.estimated, tt.variable)
			}
		})
	}
}

func TestDurationIsThatOfTheFrames(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		stamps   []*int64
		declared float64
		want     float64
	}{
		{"as declared", stampsOf(0, 40, 80), 119, 119},
		{"not that of a longer track", stampsOf(0, 40, 80), 20_000, 120},
		{"not shorter than the frames", stampsOf(0, 40, 80), 60, 120},
		{"of one frame", stampsOf(0), 0, 40},
		{"of nothing", nil, 500, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := clock{tick: 1, interval: 40}
			for _, s := range tt.stamps {
				c.next(s)
			}
			if got := c.duration(tt.declared); got != tt.want {
				t.Errorf("duration %v, want %v", got, tt.want)
			}
		})
	}
}
