package modeltest

import (
	"strconv"

	"github.com/posefleet/posefleet/pose/onnx"
)

// Size of the RTMPose model's crop.
const rtmWidth, rtmHeight = 192, 256

// RTMPose is a model of SimCC rows for a skeleton of the given number of points. swapped makes one that was trained on blue, green, red
// with the same means in the same places.
func RTMPose(points int, swapped bool) Model {
	order, channels := rgb, "rgb"
	if swapped {
		order, channels = bgr, "bgr"
	}
	k := int64(points)
	conv, weights := eyes("input", "heat", points, order, [3]float32{58.395, 57.12, 57.375}, 1)
	nodes := []onnx.Node{conv}
	consts := weights
	for _, axis := range []struct {
		name string
		over int64
		n    int64
	}{{"simcc_x", 2, rtmWidth}, {"simcc_y", 3, rtmHeight}} {
		// The best of each column or row, each twice: two steps a pixel.
		n := axis.name
		nodes = append(nodes,
			node("ReduceMax", n+"_max", []string{"heat"}, onnx.Ints("axes", axis.over), onnx.Int("keepdims", 0)),
			node("Reshape", n+"_one", []string{n + "_max", n + "_thin"}),
			node("Concat", n+"_two", []string{n + "_one", n + "_one"}, onnx.Int("axis", 3)),
			node("Reshape", n, []string{n + "_two", n + "_flat"}),
		)
		consts = append(consts, shape(n+"_thin", 1, k, axis.n, 1), shape(n+"_flat", 1, k, 2*axis.n))
	}
	return Model{
		Fields: map[string]any{"family": "rtmpose", "input": map[string]any{"channels": channels}},
		Graph: onnx.Graph{
			Nodes: nodes, Initializers: consts,
			Inputs: []onnx.Value{{Name: "input", DType: onnx.Float32, Shape: []int64{1, 3, rtmHeight, rtmWidth}}},
			Outputs: []onnx.Value{
				{Name: "simcc_x", DType: onnx.Float32, Shape: []int64{1, k, 2 * rtmWidth}},
				{Name: "simcc_y", DType: onnx.Float32, Shape: []int64{1, k, 2 * rtmHeight}},
			},
		},
	}
}

// FixedRTMPose is an RTMPose model that says the same of every crop: a line of points from the top left to the bottom right of the part
// that a person fills when the crop is 1.25 times as large.
func FixedRTMPose(points int) Model {
	m := Model{Fields: map[string]any{"family": "rtmpose"}}
	g := onnx.Graph{Inputs: []onnx.Value{{Name: "input", DType: onnx.Float32, Shape: []int64{1, 3, rtmHeight, rtmWidth}}}}
	g.Nodes = []onnx.Node{
		node("ReduceMean", "mean", []string{"input"}, onnx.Ints("axes", 0, 1, 2, 3), onnx.Int("keepdims", 0)),
		node("Mul", "nothing", []string{"mean", "zero"}),
	}
	g.Initializers = []onnx.Tensor{scalar("zero", 0)}
	for _, a := range []struct {
		name string
		n    int
	}{{"simcc_x", 2 * rtmWidth}, {"simcc_y", 2 * rtmHeight}} {
		rows := make([]float32, points*a.n)
		for k := range points {
			share := 0.1 + 0.8*float64(k)/float64(points-1)
			rows[k*a.n+int(share*float64(a.n))] = 0.9
		}
		g.Initializers = append(g.Initializers, onnx.Tensor{Name: a.name + "_rows", Shape: []int64{1, int64(points), int64(a.n)}, F32: rows})
		g.Nodes = append(g.Nodes, node("Add", a.name, []string{a.name + "_rows", "nothing"}))
		g.Outputs = append(g.Outputs, onnx.Value{Name: a.name, DType: onnx.Float32, Shape: []int64{1, int64(points), int64(a.n)}})
	}
	m.Graph = g
	return m
}

// moveSide is the side of the MoveNet models' inputs.
const moveSide = 192

// moveHead are the nodes that find, for each of 17 points, y, x and score in parts of the input: [1,17,3] as "found".
func moveHead(dtype onnx.DType) ([]onnx.Node, []onnx.Tensor) {
	const points = 17
	conv, consts := eyes("planes", "heat", points, rgb, same, 1)
	from := "input"
	var nodes []onnx.Node
	if dtype != onnx.Float32 {
		nodes, from = append(nodes, node("Cast", "real", []string{"input"}, onnx.Int("to", int64(onnx.Float32)))), "real"
	}
	nodes = append(nodes,
		node("Transpose", "planes", []string{from}, onnx.Ints("perm", 0, 3, 1, 2)),
		conv,
		node("Reshape", "flat", []string{"heat", "flat_shape"}),
		node("ArgMax", "index", []string{"flat"}, onnx.Int("axis", 2), onnx.Int("keepdims", 1)),
		node("ReduceMax", "score", []string{"flat"}, onnx.Ints("axes", 2), onnx.Int("keepdims", 1)),
		node("Cast", "place", []string{"index"}, onnx.Int("to", int64(onnx.Float32))),
		node("Div", "row_real", []string{"place", "side"}),
		node("Floor", "row", []string{"row_real"}),
		node("Mul", "row_start", []string{"row", "side"}),
		node("Sub", "column", []string{"place", "row_start"}),
	)
	for _, axis := range []string{"row", "column"} {
		nodes = append(nodes,
			node("Add", axis+"_mid", []string{axis, "half"}),
			node("Div", axis+"_part", []string{axis + "_mid", "side"}))
	}
	nodes = append(nodes, node("Concat", "found", []string{"row_part", "column_part", "score"}, onnx.Int("axis", 2)))
	return nodes, append(consts, shape("flat_shape", 1, points, moveSide*moveSide), scalar("side", moveSide), scalar("half", 0.5))
}

// MoveNet is a model of one person, whose input has the given type.
func MoveNet(dtype onnx.DType) Model {
	nodes, consts := moveHead(dtype)
	return Model{
		Fields: map[string]any{"family": "movenet"},
		Graph: onnx.Graph{
			Nodes:        append(nodes, node("Reshape", "poses", []string{"found", "poses_shape"})),
			Initializers: append(consts, shape("poses_shape", 1, 1, 17, 3)),
			Inputs:       []onnx.Value{{Name: "input", DType: dtype, Shape: []int64{1, moveSide, moveSide, 3}}},
			Outputs:      []onnx.Value{{Name: "poses", DType: onnx.Float32, Shape: []int64{1, 1, 17, 3}}},
		},
	}
}

// MoveNetMulti is a model of six people, of whom it finds one: the other rows are zeros. Its input's size is open, as in the published
// files.
func MoveNetMulti() Model {
	nodes, consts := moveHead(onnx.Int32)
	nodes = append(nodes,
		node("Reshape", "points", []string{"found", "points_shape"}),
		node("ReduceMax", "best", []string{"score"}, onnx.Ints("axes", 1, 2), onnx.Int("keepdims", 0)),
		node("Reshape", "best_one", []string{"best", "best_shape"}),
		node("Concat", "first", []string{"points", "box", "best_one"}, onnx.Int("axis", 2)),
		node("Concat", "poses", []string{"first", "nobody"}, onnx.Int("axis", 1)),
	)
	consts = append(consts, shape("points_shape", 1, 1, 51), shape("best_shape", 1, 1, 1),
		onnx.Tensor{Name: "box", Shape: []int64{1, 1, 4}, F32: []float32{0.1, 0.2, 0.7, 0.8}},
		onnx.Tensor{Name: "nobody", Shape: []int64{1, 5, 56}, F32: make([]float32, 5*56)})
	return Model{
		Fields: map[string]any{"family": "movenet-multi", "input": map[string]any{"width": moveSide, "height": moveSide}},
		Graph: onnx.Graph{
			Nodes: nodes, Initializers: consts,
			Inputs:  []onnx.Value{{Name: "input", DType: onnx.Int32, Shape: []int64{1, -1, -1, 3}}},
			Outputs: []onnx.Value{{Name: "poses", DType: onnx.Float32, Shape: []int64{1, 6, 56}}},
		},
	}
}

// Sizes of the YOLO-pose model: its input, and the grid of places at which it looks.
const (
	yoloSide   = 256
	yoloStride = 2
	yoloGrid   = yoloSide / yoloStride
	// YOLOWidth and YOLOHeight are the size of each of its boxes, in pixels of its input.
	YOLOWidth, YOLOHeight = 60, 90
)

// YOLOStep is how far apart the points of the YOLO-pose model lie, in pixels of its input: point k is YOLOPoint(k) away from the lamp.
const YOLOStep = 22

// YOLOPoint is the place of a point relative to the lamp, in pixels of the input.
func YOLOPoint(k int) (x, y float64) {
	return float64(YOLOStep * (k%4 - 1)), float64(YOLOStep * (k/4 - 2))
}

// YOLOPose sees a person around each lamp 0, at every place of a fine grid with the lamp's strength as its score: many overlapping
// people, of whom the choice must find the best. All points but the last are at a fixed way from the lamp and score like it; the last
// scores 0.1.
func YOLOPose() Model {
	const n = yoloGrid * yoloGrid
	conv, consts := eyes("images", "heat", 1, rgb, [3]float32{255, 255, 255}, yoloStride)
	xs, ys, ones := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range n {
		xs[i], ys[i], ones[i] = float32(i%yoloGrid*yoloStride), float32(i/yoloGrid*yoloStride), 1
	}
	row := func(name string, v []float32) onnx.Tensor {
		return onnx.Tensor{Name: name, Shape: []int64{1, 1, n}, F32: v}
	}
	consts = append(consts, shape("row", 1, 1, n), row("x", xs), row("y", ys), row("ones", ones),
		scalar("width", YOLOWidth), scalar("height", YOLOHeight), scalar("strength", 1.5), scalar("weak", 0.1))
	nodes := []onnx.Node{
		conv,
		node("Reshape", "line", []string{"heat", "row"}),
		node("Mul", "score", []string{"line", "strength"}),
		node("Mul", "w", []string{"ones", "width"}),
		node("Mul", "h", []string{"ones", "height"}),
		node("Mul", "low", []string{"ones", "weak"}),
	}
	rows := []string{"x", "y", "w", "h", "score"}
	for k := range 17 {
		dx, dy := YOLOPoint(k)
		s := strconv.Itoa(k)
		consts = append(consts, scalar("dx"+s, float32(dx)), scalar("dy"+s, float32(dy)))
		nodes = append(nodes, node("Add", "x"+s, []string{"x", "dx" + s}), node("Add", "y"+s, []string{"y", "dy" + s}))
		score := "score"
		if k == 16 {
			score = "low"
		}
		rows = append(rows, "x"+s, "y"+s, score)
	}
	nodes = append(nodes, node("Concat", "output0", rows, onnx.Int("axis", 1)))
	return Model{
		Fields: map[string]any{"family": "yolo-pose"},
		Graph: onnx.Graph{
			Nodes: nodes, Initializers: consts,
			Inputs:  []onnx.Value{{Name: "images", DType: onnx.Float32, Shape: []int64{1, 3, yoloSide, yoloSide}}},
			Outputs: []onnx.Value{{Name: "output0", DType: onnx.Float32, Shape: []int64{1, 56, n}}},
		},
	}
}

// rtmoSide is the side of the RTMO model's input.
const rtmoSide = 96

// RTMO says the same of every picture: one person with the given box score and all points in the middle, or with score 0 the row of zeros
// that such models give where nobody is.
func RTMO(score float32) Model {
	box, points := make([]float32, 5), make([]float32, 17*3)
	if score > 0 {
		copy(box, []float32{10, 10, 50, 90, score})
		for k := range 17 {
			copy(points[3*k:], []float32{float32(12 + 2*k), float32(20 + 4*k), 0.8})
		}
	}
	return Model{
		Fields: map[string]any{"family": "rtmo"},
		Graph: onnx.Graph{
			Nodes: []onnx.Node{
				node("ReduceMean", "mean", []string{"input"}, onnx.Ints("axes", 0, 1, 2, 3), onnx.Int("keepdims", 0)),
				node("Mul", "nothing", []string{"mean", "zero"}),
				node("Add", "dets", []string{"box", "nothing"}),
				node("Add", "keypoints", []string{"all", "nothing"}),
			},
			Initializers: []onnx.Tensor{
				scalar("zero", 0), {Name: "box", Shape: []int64{1, 1, 5}, F32: box}, {Name: "all", Shape: []int64{1, 1, 17, 3}, F32: points},
			},
			Inputs: []onnx.Value{{Name: "input", DType: onnx.Float32, Shape: []int64{1, 3, rtmoSide, rtmoSide}}},
			Outputs: []onnx.Value{
				{Name: "dets", DType: onnx.Float32, Shape: []int64{1, -1, 5}},
				{Name: "keypoints", DType: onnx.Float32, Shape: []int64{1, -1, 17, 3}},
			},
		},
	}
}
