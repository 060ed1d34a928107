package blazepose

import (
	"math"

	"github.com/posefleet/posefleet/pose"
)

// letterbox says where a region of the picture lies in the square that the detector sees: shrunk alike in both
// directions, in the middle, with black beside it.
type letterbox struct {
	// x, y is the region's left top corner in the picture.
	x, y float64
	// left, top is the first pixel of the region in the square; width, height its size there.
	left, top, width, height int
	// sx, sy are picture pixels per pixel of the square. They differ a little, since sizes are whole numbers.
	sx, sy float64
}

// newLetterbox fits a region with the given corner and size.
func newLetterbox(x, y, w, h int) letterbox {
	scale := float64(detectorSide) / float64(max(w, h))
	b := letterbox{
		x: float64(x), y: float64(y),
		width:  min(max(int(math.Round(float64(w)*scale)), 1), detectorSide),
		height: min(max(int(math.Round(float64(h)*scale)), 1), detectorSide),
	}
	b.left, b.top = (detectorSide-b.width)/2, (detectorSide-b.height)/2
	b.sx, b.sy = float64(w)/float64(b.width), float64(h)/float64(b.height)
	return b
}

// point maps a point of the square, in its pixels, to the picture.
func (b letterbox) point(x, y float64) Point2 {
	return Point2{
		X: b.x + (x-float64(b.left)+0.5)*b.sx - 0.5,
		Y: b.y + (y-float64(b.top)+0.5)*b.sy - 0.5,
	}
}

// decodeDetections reads the detector's raw output: one row of valuesPerBox and one logit per anchor. Rows under
// minScore, and rows with impossible numbers, are left out.
func decodeDetections(rows, logits []float32, at []Point2, b letterbox, minScore float64) []Detection {
	least := float32(logit(minScore))
	var out []Detection
	for i, l := range logits {
		if !(l >= least) {
			continue
		}
		d := decodeRow(rows[i*valuesPerBox:(i+1)*valuesPerBox], at[i], b)
		d.Score = sigmoid(float64(l))
		if d.ROI.Valid() && d.Box.W > 0 && d.Box.H > 0 {
			out = append(out, d)
		}
	}
	return out
}

// decodeRow reads one row. Its numbers are pixels of the square, relative to the anchor.
func decodeRow(row []float32, at Point2, b letterbox) Detection {
	point := func(i int) Point2 { return b.point(at.X+float64(row[i]), at.Y+float64(row[i+1])) }
	centre := point(0)
	w, h := float64(row[2])*b.sx, float64(row[3])*b.sy
	d := Detection{
		Box:  pose.Box{X: centre.X - w/2, Y: centre.Y - h/2, W: w, H: h},
		Hips: point(4), Rim: point(6), Shoulders: point(8),
	}
	d.ROI = alignedROI(d.Hips, d.Rim)
	return d
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func logit(p float64) float64 { return math.Log(p / (1 - p)) }
