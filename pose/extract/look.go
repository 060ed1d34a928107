package extract

import (
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/blazepose"
)

// Joints of the blazepose33 skeleton that the look is taken from.
const (
	leftShoulder, rightShoulder = 11, 12
	leftHip, rightHip           = 23, 24
	leftKnee, rightKnee         = 25, 26
)

const (
	lookBins  = 4 // a colour
	lookCells = lookBins * lookBins * lookBins
	lookSteps = 8
)

// look is a histogram of the colours of trunk and thighs, which tells people apart who were out of sight for a while. It is nil
// where the trunk is not in the picture. Points are in pixels of the frame.
func look(p blazepose.Picture, k []pose.Keypoint) []float32 {
	if len(k) <= rightKnee {
		return nil
	}
	hist := make([]float32, 2*lookCells)
	trunk := sampleQuad(hist[:lookCells], p, k[leftShoulder], k[rightShoulder], k[leftHip], k[rightHip])
	if trunk == 0 {
		return nil
	}
	legs := sampleQuad(hist[lookCells:], p, k[leftHip], k[rightHip], k[leftKnee], k[rightKnee])
	for i := range hist {
		n := trunk
		if i >= lookCells {
			n = legs
		}
		if n > 0 {
			hist[i] /= float32(2 * n)
		}
	}
	return hist
}

// sampleQuad counts the colours on a grid between four points and returns how many there were.
func sampleQuad(hist []float32, p blazepose.Picture, a, b, c, d pose.Keypoint) int {
	if !a.Found || !b.Found || !c.Found || !d.Found {
		return 0
	}
	n, size := 0, p.Size()
	for i := range lookSteps {
		v := (float64(i) + 0.5) / lookSteps
		for j := range lookSteps {
			u := (float64(j) + 0.5) / lookSteps
			x := int((1-v)*((1-u)*a.X+u*b.X) + v*((1-u)*c.X+u*d.X))
			y := int((1-v)*((1-u)*a.Y+u*b.Y) + v*((1-u)*c.Y+u*d.Y))
			if x < 0 || y < 0 || x >= size.X || y >= size.Y {
				continue
			}
			v := p.At(x, y)
			hist[int(v[0])*lookBins/256*lookBins*lookBins+int(v[1])*lookBins/256*lookBins+int(v[2])*lookBins/256]++
			n++
		}
	}
	return n
}
