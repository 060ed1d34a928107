package extract

import (
	"image"
	"image/png"
	"io"
	"math"

	"gocv.io/x/gocv"
)

// sheet is a contact sheet: frames from all over a clip in one picture.
type sheet struct {
	mat     gocv.Mat
	cell    image.Point
	columns int
	// due are the frames that the sheet shows, in order.
	due  []int
	next int
}

const (
	sheetFrames = 12
	sheetWidth  = 1920
)

// newSheet makes a sheet for a clip of the given number of frames of the given size. The caller must close it.
func newSheet(size image.Point, frames int) *sheet {
	n := max(1, min(sheetFrames, frames))
	s := &sheet{columns: min(n, 4)}
	if size.Y > size.X {
		s.columns = min(n, 6)
	}
	f := math.Min(1, float64(sheetWidth)/float64(s.columns*size.X))
	s.cell = image.Pt(max(1, int(f*float64(size.X))), max(1, int(f*float64(size.Y))))
	rows := (n + s.columns - 1) / s.columns
	s.mat = gocv.NewMatWithSize(rows*s.cell.Y, s.columns*s.cell.X, gocv.MatTypeCV8UC3)
	for i := range n {
		at := 0
		if n > 1 {
			at = i * (frames - 1) / (n - 1)
		}
		s.due = append(s.due, at)
	}
	return s
}

// add puts the frame in its place if the sheet shows it.
func (s *sheet) add(pic *picture) {
	if s.next >= len(s.due) || s.due[s.next] != pic.Index {
		return
	}
	at := image.Pt(s.next%s.columns*s.cell.X, s.next/s.columns*s.cell.Y)
	place := s.mat.Region(image.Rectangle{Min: at, Max: at.Add(s.cell)})
	defer place.Close()
	gocv.Resize(pic.mat, &place, s.cell, 0, 0, gocv.InterpolationArea)
	s.next++
}

// encode writes the sheet as PNG, by Go's encoder: OpenCV's would bring a hundred libraries along.
func (s *sheet) encode(w io.Writer) error {
	pixels, err := s.mat.DataPtrUint8()
	if err != nil {
		return err
	}
	img := image.NewRGBA(image.Rect(0, 0, s.mat.Cols(), s.mat.Rows()))
	for i := range s.mat.Cols() * s.mat.Rows() {
		img.Pix[4*i], img.Pix[4*i+1], img.Pix[4*i+2], img.Pix[4*i+3] = pixels[3*i+2], pixels[3*i+1], pixels[3*i], 255
	}
	return png.Encode(w, img)
}

func (s *sheet) close() { s.mat.Close() }
