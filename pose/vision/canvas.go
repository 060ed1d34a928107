package vision

import (
	"fmt"
	"image"
	"math"

	"github.com/posefleet/posefleet/pose/infer"
	"github.com/posefleet/posefleet/pose/manifest"
)

// Canvas makes a model's input of pictures. It owns the input's memory, which each picture overwrites.
type Canvas struct {
	width, height int
	resize        manifest.Resize
	pixels        []byte // blue, green, red
	shrink        shrinker
	small         []byte
	tensor        infer.Tensor
	// values are what a pixel of the model's first, second and third channel becomes; places say which byte of a pixel that is and
	// where the channel's values lie in the tensor.
	values [3][256]float32
	source [3]int
	offset [3]int
	step   int
}

// NewCanvas makes a canvas for the input of a model, as the manifest describes it.
func NewCanvas(m manifest.Manifest, in infer.TensorInfo) (*Canvas, error) {
	w, h, err := inputSize(m.Input, in)
	if err != nil {
		return nil, err
	}
	c := &Canvas{width: w, height: h, resize: m.Resize, pixels: make([]byte, 3*w*h), source: [3]int{2, 1, 0}}
	if m.Input.Channels == manifest.BGR {
		c.source = [3]int{0, 1, 2}
	}
	for ch := range 3 {
		for v := range 256 {
			c.values[ch][v] = float32((float64(v)*m.Input.Scale - m.Input.Mean[ch]) / m.Input.Std[ch])
		}
	}
	c.tensor.Shape = []int64{1, int64(h), int64(w), 3}
	c.offset, c.step = [3]int{0, 1, 2}, 3
	if m.Input.Layout == manifest.NCHW {
		c.tensor.Shape = []int64{1, 3, int64(h), int64(w)}
		c.offset, c.step = [3]int{0, w * h, 2 * w * h}, 1
	}
	switch in.DType {
	case infer.Float32:
		c.tensor.F32 = make([]float32, 3*w*h)
	case infer.Int32:
		c.tensor.I32 = make([]int32, 3*w*h)
	case infer.Uint8:
		c.tensor.U8 = make([]uint8, 3*w*h)
	default:
		return nil, fmt.Errorf("%w: input %v is not float32, int32 or uint8", ErrLayout, in)
	}
	return c, nil
}

// inputSize is the size of a model's input: the file's, or the manifest's where the file leaves it open.
func inputSize(want manifest.Input, in infer.TensorInfo) (w, h int, err error) {
	s := in.Shape
	if s == nil {
		s = []int64{-1, -1, -1, -1}
	}
	if len(s) != 4 || s[0] != 1 && s[0] != -1 {
		return 0, 0, fmt.Errorf("%w: input %v is not one picture", ErrLayout, in)
	}
	channels, fw, fh := s[3], s[2], s[1]
	if want.Layout == manifest.NCHW {
		channels, fh, fw = s[1], s[2], s[3]
	}
	if channels != 3 && channels != -1 {
		return 0, 0, fmt.Errorf("%w: input %v has not three channels where the layout %s has them", ErrLayout, in, want.Layout)
	}
	if w, err = oneSize("width", want.Width, fw); err == nil {
		h, err = oneSize("height", want.Height, fh)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%w: input %v: %w", ErrLayout, in, err)
	}
	return w, h, nil
}

func oneSize(what string, said int, file int64) (int, error) {
	switch {
	case file < 0 && said == 0:
		return 0, fmt.Errorf("the file leaves the %s open, so the manifest's input must give it", what)
	case file < 0:
		return said, nil
	case file < 1 || file > maxInput:
		return 0, fmt.Errorf("a %s of %d is not in 1..%d", what, file, maxInput)
	case said != 0 && int64(said) != file:
		return 0, fmt.Errorf("its %s is not %d, as the manifest says", what, said)
	}
	return int(file), nil
}

// maxInput bounds a side of a model's input.
const maxInput = 4096

// Size is the size of the input in pixels.
func (c *Canvas) Size() (width, height int) { return c.width, c.height }

// Tensor is the input. Its memory is the canvas's own.
func (c *Canvas) Tensor() infer.Tensor { return c.tensor }

// Letterbox fits a region of a picture into the input, with bars where the shapes differ, and returns the way back.
func (c *Canvas) Letterbox(p Picture, area image.Rectangle) (Affine, error) {
	if err := p.Check(); err != nil {
		return Affine{}, err
	}
	if area = area.Intersect(p.Bounds()); area.Empty() {
		return Affine{}, ErrROI
	}
	scale := math.Min(float64(c.width)/float64(area.Dx()), float64(c.height)/float64(area.Dy()))
	w := min(max(int(math.Round(float64(area.Dx())*scale)), 1), c.width)
	h := min(max(int(math.Round(float64(area.Dy())*scale)), 1), c.height)
	left, top := (c.width-w)/2, (c.height-h)/2
	if c.resize.Mode == manifest.LetterboxTopLeft {
		left, top = 0, 0
	}
	c.blank()
	c.shrink.resize(p, area, c.pixels[3*(top*c.width+left):], 3*c.width, w, h)
	c.encode()
	sx, sy := float64(area.Dx())/float64(w), float64(area.Dy())/float64(h)
	return Affine{
		sx, 0, float64(area.Min.X) + (0.5-float64(left))*sx - 0.5,
		0, sy, float64(area.Min.Y) + (0.5-float64(top))*sy - 0.5,
	}, nil
}

// shrinkFrom is the number of picture pixels per pixel of the input from which the picture is averaged down before it is turned: the warp
// looks at four pixels only and would pick noise out of larger squares.
const shrinkFrom = 2.0

// Crop turns and scales a region of a picture into the input and returns the way back.
func (c *Canvas) Crop(p Picture, roi ROI) (Affine, error) {
	if err := p.Check(); err != nil {
		return Affine{}, err
	}
	if !roi.Valid() {
		return Affine{}, fmt.Errorf("%w: %+v", ErrROI, roi)
	}
	back := roi.toPicture(c.width, c.height)
	m, source := back, p
	if f := back.Factor(); f >= shrinkFrom {
		if area := reach(roi, p); !area.Empty() {
			source, m = c.shrunk(p, area, f, m)
		}
	}
	c.warp(source, m)
	c.encode()
	return back, nil
}

// shrunk averages an area of the picture down by about factor, and returns m for that picture.
func (c *Canvas) shrunk(p Picture, area image.Rectangle, factor float64, m Affine) (Picture, Affine) {
	w := max(int(math.Round(float64(area.Dx())/factor)), 1)
	h := max(int(math.Round(float64(area.Dy())/factor)), 1)
	if cap(c.small) < 3*w*h {
		c.small = make([]byte, 3*w*h)
	}
	c.small = c.small[:3*w*h]
	c.shrink.resize(p, area, c.small, 3*w, w, h)
	fx, fy := float64(w)/float64(area.Dx()), float64(h)/float64(area.Dy())
	for i := range 3 {
		m[i], m[3+i] = m[i]*fx, m[3+i]*fy
	}
	m[2] += (0.5-float64(area.Min.X))*fx - 0.5
	m[5] += (0.5-float64(area.Min.Y))*fy - 0.5
	return Picture{Pix: c.small, Width: w, Height: h}, m
}

// reach is the part of a picture that a crop reads, with pixels to spare for interpolation.
func reach(roi ROI, p Picture) image.Rectangle {
	x0, y0, x1, y1 := roi.bounds()
	spare := math.Max(roi.W, roi.H)/64 + 2
	return image.Rect(int(math.Floor(x0-spare)), int(math.Floor(y0-spare)), int(math.Ceil(x1+spare)), int(math.Ceil(y1+spare))).
		Intersect(p.Bounds())
}

// blank paints all of the canvas in the fill's grey.
func (c *Canvas) blank() {
	grey := byte(*c.resize.Fill)
	for i := range c.pixels {
		c.pixels[i] = grey
	}
}

// warp fills the canvas with the pixels that m leads to, interpolated between four.
func (c *Canvas) warp(p Picture, m Affine) {
	grey := byte(*c.resize.Fill)
	for y := range c.height {
		out := c.pixels[3*y*c.width : 3*(y+1)*c.width]
		fx, fy := m.Pixel(0, float64(y))
		for x := range c.width {
			sample(out[3*x:3*x+3:3*x+3], p, fx+m[0]*float64(x), fy+m[3]*float64(x), grey)
		}
	}
}

// steps is how finely sample divides the way between two pixels.
const steps = 256

// sample writes the picture's colour at a place between pixels.
func sample(out []byte, p Picture, fx, fy float64, grey byte) {
	left, top := math.Floor(fx), math.Floor(fy)
	x, y := int(left), int(top)
	u, v := uint32((fx-left)*steps), uint32((fy-top)*steps)
	if x < 0 || y < 0 || x >= p.Width-1 || y >= p.Height-1 {
		sampleEdge(out, p, x, y, u, v, uint32(grey))
		return
	}
	at := 3 * (y*p.Width + x)
	a := p.Pix[at : at+6 : at+6]
	at += 3 * p.Width
	b := p.Pix[at : at+6 : at+6]
	w := weights(u, v)
	for i := range 3 {
		out[i] = byte((w[0]*uint32(a[i]) + w[1]*uint32(a[i+3]) + w[2]*uint32(b[i]) + w[3]*uint32(b[i+3]) + steps*steps/2) / (steps * steps))
	}
}

// weights are those of the upper left, upper right, lower left and lower right pixel.
func weights(u, v uint32) [4]uint32 {
	return [4]uint32{(steps - u) * (steps - v), u * (steps - v), (steps - u) * v, u * v}
}

// sampleEdge is sample where not all four pixels lie in the picture: those beside it are grey.
func sampleEdge(out []byte, p Picture, x, y int, u, v, grey uint32) {
	for i := range 3 {
		sum := uint32(steps * steps / 2)
		for j, w := range weights(u, v) {
			px, py, value := x+j%2, y+j/2, grey
			if px >= 0 && py >= 0 && px < p.Width && py < p.Height {
				value = uint32(p.Pix[3*(py*p.Width+px)+i])
			}
			sum += w * value
		}
		out[i] = byte(sum / (steps * steps))
	}
}

// encode turns the canvas into the tensor.
func (c *Canvas) encode() {
	switch {
	case c.tensor.F32 != nil:
		spread(c, c.tensor.F32)
	case c.tensor.I32 != nil:
		spread(c, c.tensor.I32)
	default:
		spread(c, c.tensor.U8)
	}
}

// spread writes the channels where they belong. Whole-number inputs are rounded.
func spread[T float32 | int32 | uint8](c *Canvas, out []T) {
	for ch := range 3 {
		table := convert[T](&c.values[ch])
		at, from := c.offset[ch], c.source[ch]
		for i := from; i < len(c.pixels); i += 3 {
			out[at] = table[c.pixels[i]]
			at += c.step
		}
	}
}

// convert rounds and bounds a table to the values that T has.
func convert[T float32 | int32 | uint8](values *[256]float32) (table [256]T) {
	for i, v := range values {
		switch t := any(&table[i]).(type) {
		case *float32:
			*t = v
		case *int32:
			*t = int32(math.Round(float64(v)))
		case *uint8:
			*t = uint8(min(max(math.Round(float64(v)), 0), 255))
		}
	}
	return table
}
