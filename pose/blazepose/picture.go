package blazepose

import (
	"image"

	"gocv.io/x/gocv"
)

// Picture is what the models look at. It is a view: the pixels stay whose they are. The zero Picture can't be looked at.
type Picture struct {
	width, height int
	// planes are red, green and blue, or with colours brightness and two colour differences.
	planes  [3]plane
	colours *[6]float32
}

// plane is one channel of a picture.
type plane struct {
	pix                   []byte
	width, height, stride int
	// step is how far apart the samples of a row are.
	step int
	// part is how many pixels of the picture a sample covers a side: 1, or 2 for colours at half the size.
	part int
}

// maxSide bounds pictures, so that sizes can be multiplied.
const maxSide = 32000

// BGR is a picture of blue, green and red bytes, row by row without gaps. Bytes that do not fit the size give a Picture that can't be
// looked at.
func BGR(pix []byte, width, height int) Picture {
	if width < 1 || height < 1 || width > maxSide || height > maxSide || len(pix) != 3*width*height {
		return Picture{}
	}
	p := Picture{width: width, height: height}
	for i := range p.planes {
		p.planes[i] = plane{pix: pix[2-i:], width: width, height: height, stride: 3 * width, step: 3, part: 1}
	}
	return p
}

// Mat is a picture that OpenCV holds, BGR with 8 bits. One that is empty, of another type or a part of a larger one can't be looked at.
func Mat(img gocv.Mat) Picture {
	if img.Ptr() == nil || img.Empty() || img.Type() != gocv.MatTypeCV8UC3 {
		return Picture{}
	}
	pix, err := img.DataPtrUint8()
	if err != nil {
		return Picture{}
	}
	return BGR(pix, img.Cols(), img.Rows())
}

// Colours say how brightness and colour differences make colours.
type Colours struct {
	// Red and Blue are the parts of red and blue in the brightness: 0.299 and 0.114 for BT.601.
	Red, Blue float64
	// Full says that black is 0 and white 255, not 16 and 235.
	Full bool
}

// Planar is a picture as video holds it (I420): a plane of brightness, then two of colour differences at half the size, rounded up.
// Bytes that do not fit the size give a Picture that can't be looked at.
func Planar(pix []byte, width, height int, c Colours) Picture {
	w, h := (width+1)/2, (height+1)/2
	if width < 1 || height < 1 || width > maxSide || height > maxSide || len(pix) != width*height+2*w*h {
		return Picture{}
	}
	y, u, v := pix[:width*height], pix[width*height:width*height+w*h], pix[width*height+w*h:]
	return Picture{
		width: width, height: height, colours: c.factors(),
		planes: [3]plane{
			{pix: y, width: width, height: height, stride: width, step: 1, part: 1},
			{pix: u, width: w, height: h, stride: w, step: 1, part: 2},
			{pix: v, width: w, height: h, stride: w, step: 1, part: 2},
		},
	}
}

// factors are what pf_colours wants.
func (c Colours) factors() *[6]float32 {
	black, light, colour := 16.0, 255.0/219, 255.0/224
	if c.Full {
		black, light, colour = 0, 1, 1
	}
	green := 1 - c.Red - c.Blue
	return &[6]float32{
		float32(black), float32(light), float32(2 * (1 - c.Red) * colour), float32(2 * c.Blue * (1 - c.Blue) / green * colour),
		float32(2 * c.Red * (1 - c.Red) / green * colour), float32(2 * (1 - c.Blue) * colour),
	}
}

// Size is the picture's size in pixels.
func (p Picture) Size() image.Point { return image.Pt(p.width, p.height) }

// At is the red, green and blue of a pixel, which must lie in the picture.
func (p Picture) At(x, y int) [3]uint8 {
	var v [3]uint8
	for i := range p.planes {
		c := &p.planes[i]
		v[i] = c.pix[y/c.part*c.stride+x/c.part*c.step]
	}
	if p.colours == nil {
		return v
	}
	c := p.colours
	light, first, second := (float32(v[0])-c[0])*c[1], float32(v[1])-128, float32(v[2])-128
	return [3]uint8{level(light + c[2]*second), level(light - c[3]*first - c[4]*second), level(light + c[5]*first)}
}

func level(v float32) uint8 { return uint8(min(max(v, 0), 255) + 0.5) }

func (p Picture) check() error {
	if p.width == 0 {
		return ErrImage
	}
	return nil
}

// area is the part of the plane that a part of the picture has, at least one sample.
func (p *plane) area(r image.Rectangle) image.Rectangle {
	return image.Rect(r.Min.X/p.part, r.Min.Y/p.part, (r.Max.X+p.part-1)/p.part, (r.Max.Y+p.part-1)/p.part)
}
