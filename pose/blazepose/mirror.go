package blazepose

import "slices"

// The landmark model was not made to see a person and their mirror image alike. Of somebody whom it sees clearly it says the same of both; of
// somebody in fog, in the dark or behind glare it does not, and may take the one for seen from the front and the other from the back. So the
// mirror image is a second opinion on a single picture.

// pairs are the points of the blazepose33 skeleton that change places in a mirror.
var pairs = [...][2]int{
	{1, 4},
	{2, 5},
	{3, 6},
	{7, 8},
	{9, 10},
	{11, 12},
	{13, 14},
	{15, 16},
	{17, 18},
	{19, 20},
	{21, 22},
	{23, 24},
	{25, 26},
	{27, 28},
	{29, 30},
	{31, 32},
}

// mirror exchanges left and right of what is in the planes.
func (s *sampler) mirror() {
	for row := range slices.Chunk(s.data, s.side) {
		slices.Reverse(row)
	}
}

// unmirror turns points of the crop's mirror image, in crop pixels, into those of the crop.
func unmirror(points []Point) {
	for i := range points {
		points[i].X = cropSide - 1 - points[i].X
	}
	for _, p := range pairs {
		points[p[0]], points[p[1]] = points[p[1]], points[p[0]]
	}
}

// unmirrorWorld does the same to points in metres.
func unmirrorWorld(points *[NumPoints]Point3) {
	for i := range points {
		points[i].X = -points[i].X
	}
	for _, p := range pairs {
		points[p[0]], points[p[1]] = points[p[1]], points[p[0]]
	}
}
