package media

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestOrientation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		a, b, c, d float64
		want       orientation
		ok         bool
	}{
		{"upright", 1, 0, 0, 1, orientation{false, 0}, true},
		{"phone held upright", 0, 1, -1, 0, orientation{false, 90}, true},
		{"upside down", -1, 0, 0, -1, orientation{false, 180}, true},
		{"phone held the other way", 0, -1, 1, 0, orientation{false, 270}, true},
		{"front camera", -1, 0, 0, 1, orientation{true, 0}, true},
		{"front camera upside down", 1, 0, 0, -1, orientation{true, 180}, true},
		{"front camera held upright", 0, -1, -1, 0, orientation{true, 90}, true},
		{"a little crooked", 0.99, 0.1, -0.1, 0.99, orientation{false, 0}, true},
		{"flat", 1, 1, 1, 1, orientation{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, ok := orient(tt.a, tt.b, tt.c, tt.d)
			if got != tt.want || ok != tt.ok {
				t.Errorf("%+v %v, want %+v %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

// TestOrientationUndoesItself checks the rule against its meaning: the matrix, applied to a corner, must do what un-mirroring
// and turning do.
func TestOrientationUndoesItself(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		o := orientation{rapid.Bool().Draw(r, "mirrored"), 90 * rapid.IntRange(0, 3).Draw(r, "quarter")}
		turn := func(x, y float64) (float64, float64) {
			if o.mirrored {
				x = -x
			}
			for range o.rotation / 90 {
				x, y = -y, x // a quarter clockwise where y points down
			}
			return x, y
		}
		a, b := turn(1, 0)
		c, d := turn(0, 1)
		if got, ok := orient(a, b, c, d); !ok || got != o {
			r.Fatalf("%+v, want %+v", got, o)
		}
	})
}

func TestMatrixAsFFprobePrintsIt(t *testing.T) {
	t.Parallel()
	text := "\n00000000:            0       65536           0\n00000001:       -65536           0           0\n00000002:     35389440           0  1073741824\n"
	if o, ok := parseMatrix(text); !ok || o != (orientation{false, 90}) {
		t.Errorf("%+v %v", o, ok)
	}
	for _, bad := range []string{"", "x", "0: 1 2\n1: 1 2\n2: 1 2\n", "0: a b c\n1: 0 0 0\n2: 0 0 0\n", "0: 0 0 0\n1: 0 0 0\n2: 0 0 0\n"} {
		if o, ok := parseMatrix(bad); ok {
			t.Errorf("%q gives %+v", bad, o)
		}
	}
}

func TestFiltersTurnAsOpenCVDoesNot(t *testing.T) {
	t.Parallel()
	want := map[orientation][]string{
		{false, 0}: nil, {false, 90}: {"transpose=clock"}, {true, 270}: {"hflip", "transpose=cclock"}, {false, 180}: {"hflip", "vflip"},
	}
	for o, f := range want {
		if diff := cmp.Diff(f, o.filters()); diff != "" {
			t.Errorf("%+v: %s", o, diff)
		}
	}
}

func FuzzMatrix(f *testing.F) {
	f.Add("00000000: 0 65536 0\n00000001: -65536 0 0\n00000002: 0 0 1073741824\n")
	f.Fuzz(func(t *testing.T, text string) {
		if o, ok := parseMatrix(text); ok && (o.rotation%90 != 0 || o.rotation < 0 || o.rotation > 270) {
			t.Errorf("%q gives %+v", text, o)
		}
	})
}

func FuzzShowinfo(f *testing.F) {
	f.Add("[Parsed_showinfo_0 @ 0x55] [info] n:   1 pts:    256 pts_time:0.0166667 pos: 28748 fmt:yuv420p sar:0/1 s:540x960 i:P")
	f.Add("[Parsed_showinfo_0 @ 0x55] [info] config in time_base: 1/15360, frame_rate: 60/1")
	f.Fuzz(func(t *testing.T, text string) {
		l := newDecoderLog()
		l.line(text)
		if l.unit() <= 0 {
			t.Errorf("%q gives a unit of %v", text, l.unit())
		}
	})
}
