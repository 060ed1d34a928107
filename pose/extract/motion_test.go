package extract

import (
	"image"
	"testing"

	"github.com/posefleet/posefleet/pose"
)

func TestLookAtWhatMovesBesideSomebody(t *testing.T) {
	t.Parallel()
	size := image.Pt(640, 640)
	person := func(x float64) []pose.Observation {
		return []pose.Observation{{Box: pose.Box{X: x - 40, Y: 200, W: 80, H: 240}}}
	}
	tests := []struct {
		name   string
		people []pose.Observation
		moving image.Rectangle // in cells of the grid, of 20 pixels each
		holds  image.Point
		spares image.Point
	}{
		{"alone", nil, image.Rect(14, 10, 18, 20), image.Pt(320, 300), image.Pt(20, 300)},
		{"to the right of somebody", person(250), image.Rect(17, 10, 21, 20), image.Pt(380, 300), image.Pt(250, 300)},
		{"to the left of somebody", person(450), image.Rect(14, 10, 18, 20), image.Pt(320, 300), image.Pt(450, 300)},
		{"coming in at the edge", nil, image.Rect(0, 10, 4, 20), image.Pt(40, 300), image.Pt(300, 300)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var m motion
			for y := tt.moving.Min.Y; y < tt.moving.Max.Y; y++ {
				for x := tt.moving.Min.X; x < tt.moving.Max.X; x++ {
					m.change[y*cutGrid+x] = 100
				}
			}
			got := m.beyond(tt.people, size)
			if !tt.holds.In(got) || tt.spares.In(got) || !got.In(image.Rectangle{Max: size}) {
				t.Errorf("region %v, want one that holds %v and not %v", got, tt.holds, tt.spares)
			}
		})
	}
	if got := new(motion).beyond(nil, size); !got.Empty() {
		t.Errorf("where nothing moves the region is %v", got)
	}
}
