package pose

import "slices"

// Skeleton is a set of named body points and the bones between them.
type Skeleton struct {
	Name string `json:"name"`
	// Keypoints are the names of the points in their order.
	Keypoints []string `json:"keypoints"`
	// Edges are bones: pairs of indices into Keypoints.
	Edges [][2]int `json:"edges"`
}

// Index is the place of the named point, or -1.
func (s Skeleton) Index(name string) int { return slices.Index(s.Keypoints, name) }

// BlazePose33 is the skeleton of the BlazePose models.
func BlazePose33() Skeleton {
	return Skeleton{
		Name: "blazepose33",
		Keypoints: []string{
			"nose", "left_eye_inner", "left_eye", "left_eye_outer", "right_eye_inner", "right_eye", "right_eye_outer",
			"left_ear", "right_ear", "mouth_left", "mouth_right",
			"left_shoulder", "right_shoulder", "left_elbow", "right_elbow", "left_wrist", "right_wrist",
			"left_pinky", "right_pinky", "left_index", "right_index", "left_thumb", "right_thumb",
			"left_hip", "right_hip", "left_knee", "right_knee", "left_ankle", "right_ankle",
			"left_heel", "right_heel", "left_foot_index", "right_foot_index",
		},
		Edges: [][2]int{
			{0, 1},
			{1, 2},
			{2, 3},
			{3, 7},
			{0, 4},
			{4, 5},
			{5, 6},
			{6, 8},
			{9, 10},
			{11, 12},
			{11, 13},
			{13, 15},
			{15, 17},
			{15, 19},
			{15, 21},
			{17, 19},
			{12, 14},
			{14, 16},
			{16, 18},
			{16, 20},
			{16, 22},
			{18, 20},
			{11, 23},
			{12, 24},
			{23, 24},
			{23, 25},
			{24, 26},
			{25, 27},
			{26, 28},
			{27, 29},
			{28, 30},
			{29, 31},
			{30, 32},
			{27, 31},
			{28, 32},
		},
	}
}

// COCO17 is the skeleton of the COCO keypoint task.
func COCO17() Skeleton {
	return Skeleton{
		Name: "coco17",
		Keypoints: []string{
			"nose", "left_eye", "right_eye", "left_ear", "right_ear",
			"left_shoulder", "right_shoulder", "left_elbow", "right_elbow", "left_wrist", "right_wrist",
			"left_hip", "right_hip", "left_knee", "right_knee", "left_ankle", "right_ankle",
		},
		Edges: [][2]int{
			{0, 1},
			{0, 2},
			{1, 3},
			{2, 4},
			{5, 6},
			{5, 7},
			{7, 9},
			{6, 8},
			{8, 10},
			{5, 11},
			{6, 12},
			{11, 12},
			{11, 13},
			{13, 15},
			{12, 14},
			{14, 16},
		},
	}
}

// Halpe26 is the skeleton of the Halpe full-body data: COCO's points with crown, neck, middle of the hips, toes and heels. Two of its
// points have other names there: "mid_hip" is its "hip", and "head" is the top of the head.
func Halpe26() Skeleton {
	coco := COCO17()
	return Skeleton{
		Name: "halpe26",
		Keypoints: append(coco.Keypoints,
			"head", "neck", "mid_hip",
			"left_big_toe", "right_big_toe", "left_small_toe", "right_small_toe", "left_heel", "right_heel"),
		Edges: [][2]int{
			{0, 1},
			{0, 2},
			{1, 3},
			{2, 4},
			{17, 18},
			{0, 18},
			{18, 19},
			{18, 5},
			{18, 6},
			{5, 7},
			{7, 9},
			{6, 8},
			{8, 10},
			{19, 11},
			{19, 12},
			{11, 13},
			{13, 15},
			{12, 14},
			{14, 16},
			{15, 20},
			{15, 22},
			{15, 24},
			{16, 21},
			{16, 23},
			{16, 25},
		},
	}
}

// Body25 is the skeleton of OpenPose's BODY_25 output.
func Body25() Skeleton {
	return Skeleton{
		Name: "body25",
		Keypoints: []string{
			"nose", "neck", "right_shoulder", "right_elbow", "right_wrist", "left_shoulder", "left_elbow", "left_wrist",
			"mid_hip", "right_hip", "right_knee", "right_ankle", "left_hip", "left_knee", "left_ankle",
			"right_eye", "left_eye", "right_ear", "left_ear",
			"left_big_toe", "left_small_toe", "left_heel", "right_big_toe", "right_small_toe", "right_heel",
		},
		Edges: [][2]int{
			{1, 8},
			{1, 2},
			{1, 5},
			{2, 3},
			{3, 4},
			{5, 6},
			{6, 7},
			{8, 9},
			{9, 10},
			{10, 11},
			{8, 12},
			{12, 13},
			{13, 14},
			{1, 0},
			{0, 15},
			{15, 17},
			{0, 16},
			{16, 18},
			{14, 19},
			{19, 20},
			{14, 21},
			{11, 22},
			{22, 23},
			{11, 24},
		},
	}
}

// Skeletons are the skeletons that models may name: those of the families that posefleet runs.
func Skeletons() []Skeleton { return []Skeleton{BlazePose33(), COCO17(), Halpe26()} }

// derived says which points stand for one that a skeleton lacks: their mean, or the one point that is nearest in meaning. The
// small toes have no stand-in.
var derived = map[string][]string{
	"neck":          {"left_shoulder", "right_shoulder"},
	"mid_hip":       {"left_hip", "right_hip"},
	"left_big_toe":  {"left_foot_index"},
	"right_big_toe": {"right_foot_index"},
	// BlazePose's foot index is the tip of the big toe.
	"left_foot_index":  {"left_big_toe"},
	"right_foot_index": {"right_big_toe"},
}

// View shows the points of one skeleton as another.
type View struct {
	// To is the skeleton that the view shows.
	To   Skeleton
	from [][]int
	same bool
}

// NewView returns the view of from as to. Points are matched by name; what from can't give stays missing.
func NewView(from, to Skeleton) View {
	v := View{To: to, from: make([][]int, len(to.Keypoints)), same: slices.Equal(from.Keypoints, to.Keypoints)}
	for i, name := range to.Keypoints {
		names := []string{name}
		if from.Index(name) < 0 {
			names = derived[name]
		}
		for _, n := range names {
			if j := from.Index(n); j >= 0 {
				v.from[i] = append(v.from[i], j)
			}
		}
		if len(v.from[i]) != len(names) {
			v.from[i] = nil
		}
	}
	return v
}

// Points are points of the source skeleton seen as To. A mean is missing unless all its parts are there; its score is the
// lowest of theirs. Points of a skeleton seen as itself are what they are.
func (v View) Points(points []Keypoint) []Keypoint {
	if v.same {
		return points
	}
	out := make([]Keypoint, len(v.from))
	for i, from := range v.from {
		out[i] = mean(points, from)
	}
	return out
}

func mean(points []Keypoint, indices []int) Keypoint {
	if len(indices) == 0 {
		return Keypoint{}
	}
	m := Keypoint{Score: 1, Found: true}
	for _, i := range indices {
		if i >= len(points) || !points[i].usable() {
			return Keypoint{}
		}
		m.X += points[i].X / float64(len(indices))
		m.Y += points[i].Y / float64(len(indices))
		m.Score = min(m.Score, points[i].Score)
	}
	return m
}
