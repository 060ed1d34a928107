package extract

import (
	"image"
	"testing"

	"pgregory.net/rapid"
)

// A guessed region must be the one that the plan gives where nothing unforeseen happens, or all early looks are in vain; and guessing must
// not change the plan.
func TestGuessedRegionIsThePlannedOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size := image.Pt(1920, 1080)
		refresh, guessed := rapid.IntRange(1, 20).Draw(t, "refresh"), 0
		f, other := newFinder(size, refresh), newFinder(size, refresh)
		for range rapid.IntRange(30, 60).Draw(t, "frames") {
			live := rapid.IntRange(0, 3).Draw(t, "live")
			var moving image.Rectangle
			if rapid.IntRange(0, 9).Draw(t, "stir") == 0 {
				moving = image.Rect(0, 0, 900, 900)
			}
			guess := f.guess(live, 3)
			sweep, regions := f.plan(live, 3, moving)
			if again, same := other.plan(live, 3, moving); sweep != again || len(regions) != len(same) {
				t.Fatalf("%v %v, without a guess %v %v", sweep, regions, again, same)
			}
			if guess.Empty() || !moving.Empty() {
				continue
			}
			guessed++
			if sweep || len(regions) != 1 || regions[0] != guess {
				t.Fatalf("guessed %v, planned %v (sweep %v)", guess, regions, sweep)
			}
		}
		t.Log(guessed)
	})
}
