package blazepose

import (
	"fmt"
	"image"
	"image/color"
	"math"

	"gocv.io/x/gocv"
)

// warpInverse says that a matrix leads from the result to the source; gocv has no name for the flag.
const warpInverse gocv.InterpolationFlags = 16

// checkImage refuses pictures that OpenCV would end the process for.
func checkImage(img gocv.Mat) error {
	if img.Ptr() == nil || img.Empty() {
		return fmt.Errorf("%w: it is empty", ErrImage)
	}
	if img.Type() != gocv.MatTypeCV8UC3 {
		return fmt.Errorf("%w: its type is %v, not 8 bits BGR", ErrImage, img.Type())
	}
	if img.Rows() > maxSide || img.Cols() > maxSide {
		return fmt.Errorf("%w: %d×%d is over the limit of %d a side", ErrImage, img.Cols(), img.Rows(), maxSide)
	}
	return nil
}

// maxSide bounds pictures; OpenCV's warp cannot address more than 32767 pixels a side.
const maxSide = 32000

// planes turns 8-bit pixels into the float planes that models read. Each pixel value goes through a table.
type planes struct {
	side  int
	table [256]float32
	data  []float32
}

// newPlanes makes planes of side×side pixels whose values go from low (black) to high.
func newPlanes(side int, low, high float32) *planes {
	p := &planes{side: side, data: make([]float32, 3*side*side)}
	for i := range p.table {
		p.table[i] = low + (high-low)*float32(i)/255
	}
	return p
}

// clear makes all pixels black.
func (p *planes) clear() {
	for i := range p.data {
		p.data[i] = p.table[0]
	}
}

// put writes a block of BGR pixels, width×height, with its left top corner at (left, top), as planes R, G and B.
func (p *planes) put(bgr []byte, left, top, width, height int) {
	n := p.side * p.side
	r, g, b := p.data[:n], p.data[n:2*n], p.data[2*n:3*n]
	for y := range height {
		row := bgr[y*width*3 : (y+1)*width*3]
		at := (top+y)*p.side + left
		rr, gg, bb := r[at:at+width], g[at:at+width], b[at:at+width]
		for x := range width {
			px := row[3*x : 3*x+3 : 3*x+3]
			bb[x], gg[x], rr[x] = p.table[px[0]], p.table[px[1]], p.table[px[2]]
		}
	}
}

// shrinker fits regions of a picture into the detector's square. It owns one native picture.
type shrinker struct {
	small gocv.Mat
	out   *planes
}

func newShrinker() *shrinker {
	return &shrinker{small: gocv.NewMat(), out: newPlanes(detectorSide, -1, 1)}
}

func (s *shrinker) close() error { return s.small.Close() }

// shrink fills the planes with a region of img, which must lie in the picture, and says where it lies there.
func (s *shrinker) shrink(img gocv.Mat, region image.Rectangle) (letterbox, error) {
	b := newLetterbox(region.Min.X, region.Min.Y, region.Dx(), region.Dy())
	view := img.Region(region)
	defer view.Close()
	how := gocv.InterpolationArea // averages what a pixel covers, so that thin limbs do not vanish
	if b.sx < 1 {
		how = gocv.InterpolationLinear
	}
	gocv.Resize(view, &s.small, image.Pt(b.width, b.height), 0, 0, how)
	pixels, err := s.small.DataPtrUint8()
	if err != nil {
		return b, fmt.Errorf("shrink picture: %w", err)
	}
	s.out.clear()
	s.out.put(pixels, b.left, b.top, b.width, b.height)
	return b, nil
}

// cropper cuts turned squares out of pictures. It owns native pictures.
type cropper struct {
	matrix, small, crop gocv.Mat
	out                 *planes
}

func newCropper() *cropper {
	return &cropper{
		matrix: gocv.NewMatWithSize(2, 3, gocv.MatTypeCV64F),
		small:  gocv.NewMat(),
		crop:   gocv.NewMat(),
		out:    newPlanes(cropSide, 0, 1),
	}
}

func (c *cropper) close() error {
	_ = c.matrix.Close()
	_ = c.small.Close()
	return c.crop.Close()
}

// shrinkFrom is the number of picture pixels per crop pixel from which a picture is averaged down before it is
// turned: the warp looks at four pixels only and would pick noise out of larger squares.
const shrinkFrom = 2.0

// cut fills the planes with the square roi of img. What lies beyond the picture repeats its edge.
func (c *cropper) cut(img gocv.Mat, roi ROI) error {
	m := roi.cropToPicture(cropSide)
	source := img
	if factor := roi.Size / cropSide; factor >= shrinkFrom {
		if area := reach(roi, img.Cols(), img.Rows()); !area.Empty() {
			m = c.shrink(img, area, factor, m)
			source = c.small
		}
	}
	values, err := c.matrix.DataPtrFloat64()
	if err != nil {
		return fmt.Errorf("crop picture: %w", err)
	}
	copy(values, m[:])
	gocv.WarpAffineWithParams(source, &c.crop, c.matrix, image.Pt(cropSide, cropSide),
		gocv.InterpolationLinear|warpInverse, gocv.BorderReplicate, color.RGBA{})
	pixels, err := c.crop.DataPtrUint8()
	if err != nil {
		return fmt.Errorf("crop picture: %w", err)
	}
	c.out.put(pixels, 0, 0, cropSide, cropSide)
	return nil
}

// shrink averages the area of img down by about factor into c.small, and returns m for that picture.
func (c *cropper) shrink(img gocv.Mat, area image.Rectangle, factor float64, m affine) affine {
	w := max(int(math.Round(float64(area.Dx())/factor)), 1)
	h := max(int(math.Round(float64(area.Dy())/factor)), 1)
	view := img.Region(area)
	defer view.Close()
	gocv.Resize(view, &c.small, image.Pt(w, h), 0, 0, gocv.InterpolationArea)
	fx, fy := float64(w)/float64(area.Dx()), float64(h)/float64(area.Dy())
	for i := range 3 {
		m[i], m[3+i] = m[i]*fx, m[3+i]*fy
	}
	m[2] += (0.5-float64(area.Min.X))*fx - 0.5
	m[5] += (0.5-float64(area.Min.Y))*fy - 0.5
	return m
}

// reach is the part of a picture that a crop of roi reads, with a pixel to spare for interpolation.
func reach(roi ROI, width, height int) image.Rectangle {
	b := roi.Bounds()
	spare := roi.Size/cropSide + 1
	r := image.Rect(
		int(math.Floor(b.X-spare)), int(math.Floor(b.Y-spare)),
		int(math.Ceil(b.X+b.W+spare))+1, int(math.Ceil(b.Y+b.H+spare))+1,
	)
	return r.Intersect(image.Rect(0, 0, width, height))
}
