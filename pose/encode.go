package pose

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
)

// Decimals of the document's numbers. A hundredth of a pixel is far below the models' own error; a microsecond keeps frames of
// any time base apart.
const (
	timeDecimals  = 3
	pixelDecimals = 2
	scoreDecimals = 4
)

// ErrNotFinite is the answer to a time that is not a number. Points that are not are written as missing.
var ErrNotFinite = errors.New("a time is not a finite number")

// Encoder writes a document as it comes: it keeps one frame at a time. The same input gives the same bytes.
type Encoder struct {
	w      *bufio.Writer
	buf    []byte
	clips  int
	digits digits
}

// digits are how many decimals pixels and scores are written with; negative: as many as they have, and scores as they are.
type digits struct{ pixels, scores int }

var (
	usualDigits = digits{pixelDecimals, scoreDecimals}
	allDigits   = digits{-1, -1}
)

// NewEncoder writes the head of a document to w. The caller ends the document with Close.
func NewEncoder(w io.Writer, head Head) (*Encoder, error) {
	e := &Encoder{w: bufio.NewWriterSize(w, 64<<10), digits: usualDigits}
	if head.Exact {
		e.digits = allDigits
	}
	parts := []struct {
		key   string
		value any
	}{
		{`{"schema":`, Schema},
		{",\n\"analysisId\":", head.AnalysisID},
		{",\n\"model\":", head.Model},
		{",\n\"skeleton\":", head.Skeleton},
	}
	for _, p := range parts {
		if err := e.value(p.key, p.value); err != nil {
			return nil, err
		}
	}
	return e, e.text(",\n\"clips\":[")
}

// Clip writes one clip with its frames, in order. An error that frames yields ends it and is returned.
func (e *Encoder) Clip(head ClipHead, frames iter.Seq2[Frame, error]) error {
	if err := e.text(separator(e.clips)); err != nil {
		return err
	}
	e.clips++
	if err := e.openClip(head); err != nil {
		return err
	}
	n := 0
	for f, err := range frames {
		if err != nil {
			return err
		}
		if err := e.frame(f, n); err != nil {
			return fmt.Errorf("frame %d of clip %s: %w", n, head.ID, err)
		}
		n++
	}
	return e.text("]}")
}

// Close ends the document and flushes it. It does not close the writer below.
func (e *Encoder) Close() error {
	if err := e.text("]}\n"); err != nil {
		return err
	}
	return e.w.Flush()
}

func (e *Encoder) openClip(head ClipHead) error {
	if err := e.value("\n{\"id\":", head.ID); err != nil {
		return err
	}
	if err := e.value(",\n\"media\":", head.Media.rounded()); err != nil {
		return err
	}
	athlete := head.Athlete
	if athlete != nil {
		a := *athlete
		a.Margin = round(a.Margin, scoreDecimals)
		athlete = &a
	}
	if err := e.value(",\n\"athlete\":", athlete); err != nil {
		return err
	}
	if head.Signal != nil {
		if err := e.value(",\n\"signal\":", head.Signal); err != nil {
			return err
		}
	}
	return e.text(",\n\"frames\":[")
}

func (e *Encoder) frame(f Frame, index int) error {
	if !finite(f.T) {
		return ErrNotFinite
	}
	b := append(e.buf[:0], separator(index)...)
	b = append(b, "\n{\"t\":"...)
	b = appendNumber(b, f.T, timeDecimals)
	b = append(b, `,"people":[`...)
	for i, p := range f.People {
		b = append(b, separator(i)...)
		b = e.digits.person(b, p)
	}
	b = append(b, ']')
	e.buf = append(e.digits.filled(b, f.Filled), '}')
	_, err := e.w.Write(e.buf)
	return err
}

func (e *Encoder) value(key string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := e.text(key); err != nil {
		return err
	}
	_, err = e.w.Write(data)
	return err
}

func (e *Encoder) text(s string) error {
	_, err := e.w.WriteString(s)
	return err
}

// Decode reads a whole document.
func Decode(r io.Reader) (*Document, error) {
	var d Document
	if err := json.NewDecoder(r).Decode(&d); err != nil {
		return nil, fmt.Errorf("read pose document: %w", err)
	}
	if d.Schema != Schema {
		return nil, fmt.Errorf("read pose document: schema %q is not %q", d.Schema, Schema)
	}
	return &d, nil
}

func separator(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

func (d digits) person(b []byte, p Person) []byte {
	b = append(b, `{"track":`...)
	b = strconv.AppendInt(b, int64(p.Track), 10)
	b = append(b, `,"score":`...)
	b = d.score(b, p.Score)
	b = append(b, `,"box":`...)
	b = d.box(b, p.Box)
	b = append(b, `,"keypoints":[`...)
	b = append(d.points(b, p.Keypoints), ']')
	return append(d.extras(b, p), '}')
}

func (d digits) points(b []byte, points []Keypoint) []byte {
	for i, k := range points {
		b = append(b, separator(i)...)
		b = d.point(b, k)
	}
	return b
}

func (d digits) box(b []byte, box Box) []byte {
	b = append(b, '[')
	for i, v := range [4]float64{box.X, box.Y, box.W, box.H} {
		b = append(b, separator(i)...)
		b = appendNumber(b, v, d.pixels)
	}
	return append(b, ']')
}

func (d digits) point(b []byte, k Keypoint) []byte {
	if !k.usable() {
		return append(b, "null"...)
	}
	b = append(b, '[')
	b = appendNumber(b, k.X, d.pixels)
	b = append(b, ',')
	b = appendNumber(b, k.Y, d.pixels)
	b = append(b, ',')
	b = d.score(b, k.Score)
	return append(b, ']')
}

// score confines a score to 0..1, except where numbers are kept as they are.
func (d digits) score(b []byte, v float64) []byte {
	if d.scores >= 0 {
		v = unit(v)
	}
	return appendNumber(b, v, d.scores)
}

// appendNumber writes v with at most the given decimals, negative: all of them, without trailing zeros and never as "-0". A number that is not
// finite, which no caller should have, becomes 0: the document stays valid JSON.
func appendNumber(b []byte, v float64, decimals int) []byte {
	if !finite(v) {
		v = 0
	}
	start := len(b)
	b = strconv.AppendFloat(b, v, 'f', decimals, 64)
	if decimals > 0 {
		for b[len(b)-1] == '0' {
			b = b[:len(b)-1]
		}
		if b[len(b)-1] == '.' {
			b = b[:len(b)-1]
		}
	}
	if string(b[start:]) == "-0" {
		b = append(b[:start], '0')
	}
	return b
}

// rounded returns m with all its numbers rounded, so that encoding/json prints them short.
func (m Media) rounded() Media {
	m.PixelAspect = round(m.PixelAspect, 6)
	m.DurationMs = round(m.DurationMs, timeDecimals)
	m.FPS = FPS{roundRate(m.FPS.Nominal), roundRate(m.FPS.Average), roundRate(m.FPS.Capture)}
	cuts := make([]float64, 0, len(m.Cuts))
	for _, c := range m.Cuts {
		cuts = append(cuts, round(c, timeDecimals))
	}
	m.Cuts = cuts
	ramps := make([]Ramp, 0, len(m.Ramps))
	for _, r := range m.Ramps {
		ramps = append(ramps, Ramp{round(r.T, timeDecimals), round(r.From, 4), round(r.To, 4)})
	}
	m.Ramps = ramps
	return m
}

func roundRate(v *float64) *float64 {
	if v == nil || !finite(*v) {
		return nil
	}
	r := round(*v, 4)
	return &r
}

func round(v float64, decimals int) float64 {
	if !finite(v) {
		return 0
	}
	p := math.Pow10(decimals)
	return math.Round(v*p) / p
}

// unit confines v to 0..1.
func unit(v float64) float64 { return math.Min(1, math.Max(0, v)) }
