package media

import "fmt"

// Colours say how the brightness and the colour differences of planar frames make red, green and blue.
type Colours struct {
	// Red and Blue are the parts of red and blue in the brightness.
	Red, Blue float64
	// Full says that black is 0 and white 255, not 16 and 235.
	Full bool
}

// matrices are the colours of a clip by the name of its matrix.
var matrices = map[string]Colours{
	"bt709": {Red: 0.2126, Blue: 0.0722}, "bt2020nc": {Red: 0.2627, Blue: 0.0593}, "bt2020c": {Red: 0.2627, Blue: 0.0593},
	"fcc": {Red: 0.30, Blue: 0.11}, "smpte240m": {Red: 0.212, Blue: 0.087},
}

// television is the matrix of clips that name none, and that to which ffmpeg is told to convert what has no such planes.
var television = Colours{Red: 0.299, Blue: 0.114}

// Planar forms of pixels that are taken as they are. The second one has the full range.
const (
	planar     = "yuv420p"
	planarFull = "yuvj420p"
)

// Colours are those of planar frames.
func (r *Reader) Colours() Colours {
	c, ok := matrices[r.info.Matrix]
	if !ok || !isYUV(r.info.Pixels) {
		c = television
	}
	c.Full = r.info.Pixels == planarFull
	return c
}

// isYUV reports whether pixels are brightness and two colour differences.
func isYUV(pixels string) bool {
	for _, head := range []string{"yuv", "nv12", "nv16", "nv2", "p010", "p016", "p210", "p410", "y210", "y212", "uyvy", "yuyv"} {
		if len(pixels) >= len(head) && pixels[:len(head)] == head {
			return true
		}
	}
	return false
}

// FrameBytes is the size of one frame: blue, green and red of each pixel, row by row without gaps; of planar frames a plane of
// brightness, and two of colour differences at half the size, rounded up.
func (r *Reader) FrameBytes() int {
	if r.config.Planar {
		return r.Width*r.Height + 2*((r.Width+1)/2)*((r.Height+1)/2)
	}
	return 3 * r.Width * r.Height
}

// pixels are the options of the scale filter and the form of the pixels behind it. A clip whose frames have the form already passes
// through: an option would make the filter convert it.
func (r *Reader) pixels() (options, form string) {
	switch {
	case !r.config.Planar:
		return "", "bgr24"
	case r.info.Pixels == planarFull:
		return "", planarFull
	case r.info.Pixels == planar && !r.info.FullRange:
		return "", planar
	case !isYUV(r.info.Pixels):
		return ":out_color_matrix=bt601:out_range=tv", planar
	}
	return ":out_range=tv", planar
}

// scale is the filter that brings frames to a size.
func (r *Reader) scale(w, h int, flags string) string {
	options, form := r.pixels()
	return fmt.Sprintf("scale=%d:%d:flags=%s%s,format=%s", w, h, flags, options, form)
}
