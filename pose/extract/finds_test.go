package extract

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/posefleet/posefleet/pose/blazepose"
)

// seen is a find of one region.
func seen(region int, x, size, score float64) find {
	d := blazepose.Detection{Score: score, ROI: blazepose.ROI{Cx: x, Cy: 200, Size: size}}
	d.Box.X, d.Box.Y, d.Box.W, d.Box.H = x, 100, 1, 1 // boxes do not overlap: the places decide
	return find{Detection: d, wide: score, in: 1 << region}
}

func TestNeighboursWhomTheDetectorTellsApartStayTwo(t *testing.T) {
	t.Parallel()
	// Two people a sixth of their size apart, each seen in two regions. The places of one in the two differ by little less.
	all := []find{seen(0, 184, 320, 0.95), seen(0, 243, 340, 0.73), seen(1, 189, 317, 0.91), seen(1, 244, 350, 0.93), seen(2, 620, 300, 0.9)}
	for range 20 {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		kept := merge(slices.Clone(all))
		if len(kept) != 3 {
			t.Fatalf("%d people, want 3: %+v", len(kept), kept)
		}
		for i, want := range []float64{0.93, 0.95, 0.9} { // the largest first
			if kept[i].Score != want || kept[i].wide != want {
				t.Errorf("person %d has score %v, in a large region %v; want %v", i, kept[i].Score, kept[i].wide, want)
			}
		}
		if kept[0].in != 3 || kept[1].in != 3 || kept[2].in != 4 {
			t.Errorf("regions %b, %b and %b", kept[0].in, kept[1].in, kept[2].in)
		}
	}
}

func TestWhoStandsNextToSomebodyKnownIsNotTakenForThem(t *testing.T) {
	t.Parallel()
	known := []place{{ROI: blazepose.ROI{Cx: 200, Cy: 200, Size: 320}}, {ROI: blazepose.ROI{Cx: 900, Cy: 200, Size: 320}}}
	for _, tt := range []struct {
		name  string
		found []find
		want  []int
	}{
		{"alone", []find{seen(0, 250, 320, 0.9)}, []int{0}},
		{"far", []find{seen(0, 300, 320, 0.9)}, []int{-1}},
		{"next to them", []find{seen(0, 250, 320, 0.9), seen(0, 205, 320, 0.8)}, []int{-1, 0}},
		{"in two regions", []find{seen(0, 250, 320, 0.9), seen(1, 205, 320, 0.8)}, []int{0, 0}},
		{"of another size", []find{seen(0, 200, 700, 0.9)}, []int{-1}},
		{"both", []find{seen(0, 880, 320, 0.9), seen(0, 190, 320, 0.8)}, []int{1, 0}},
	} {
		if got := recognised(tt.found, known); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
