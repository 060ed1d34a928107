package extract

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"

	"github.com/posefleet/posefleet/pose"
)

// spool keeps the frames of a clip on disk until its head is known. Numbers are rounded as in the document.
type spool struct {
	path string
	file *os.File
	out  *bufio.Writer
	buf  []byte
}

const (
	timeUnits  = 1000.0   // a ms
	pixelUnits = 100.0    // a pixel
	scoreUnits = 10_000.0 // of 1
	missing    = math.MinInt32
)

// newSpool makes an empty spool in dir. Its faults go to people elsewhere, who need not know our folders.
func newSpool(dir string) (*spool, error) {
	f, err := os.CreateTemp(dir, ".frames-*")
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	if err != nil {
		return nil, fmt.Errorf("spool frames: %w", err)
	}
	return &spool{path: f.Name(), file: f, out: bufio.NewWriterSize(f, 64<<10)}, nil
}

// add appends one frame.
func (s *spool) add(f pose.Frame) error {
	b := binary.LittleEndian.AppendUint64(s.buf[:0], uint64(int64(math.Round(f.T*timeUnits))))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(f.People)))
	for _, p := range f.People {
		b = binary.LittleEndian.AppendUint32(b, uint32(p.Track))
		b = binary.LittleEndian.AppendUint16(b, uint16(math.Round(p.Score*scoreUnits)))
		for _, v := range [4]float64{p.Box.X, p.Box.Y, p.Box.W, p.Box.H} {
			b = appendPixels(b, v)
		}
		b = append(b, byte(len(p.Keypoints)))
		for _, k := range p.Keypoints {
			b = appendPoint(b, k)
		}
	}
	s.buf = b
	_, err := s.out.Write(b)
	return err
}

func appendPixels(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint32(b, uint32(int32(math.Round(v*pixelUnits))))
}

func appendPoint(b []byte, k pose.Keypoint) []byte {
	if !k.Found {
		k = pose.Keypoint{X: missing / pixelUnits}
	}
	b = appendPixels(appendPixels(b, k.X), k.Y)
	return binary.LittleEndian.AppendUint16(b, uint16(math.Round(k.Score*scoreUnits)))
}

// finish ends writing.
func (s *spool) finish() error {
	return errors.Join(s.out.Flush(), s.file.Close())
}

// remove deletes the file.
func (s *spool) remove() error {
	s.file.Close()
	return os.Remove(s.path)
}

// frames reads the frames back. names gives people the ids of the document; who has none is left out.
func (s *spool) frames(names map[int]int) iter.Seq2[pose.Frame, error] {
	return func(yield func(pose.Frame, error) bool) {
		f, err := os.Open(s.path)
		if err != nil {
			yield(pose.Frame{}, err)
			return
		}
		defer f.Close()
		r := &spoolReader{in: bufio.NewReaderSize(f, 64<<10)}
		for {
			frame, err := r.frame(names)
			if errors.Is(err, io.EOF) || !yield(frame, err) || err != nil {
				return
			}
		}
	}
}

type spoolReader struct {
	in  *bufio.Reader
	buf [16]byte
	err error
}

func (r *spoolReader) frame(names map[int]int) (pose.Frame, error) {
	head := r.take(10)
	if r.err != nil {
		return pose.Frame{}, r.err
	}
	f := pose.Frame{T: float64(int64(binary.LittleEndian.Uint64(head))) / timeUnits, People: []pose.Person{}}
	for range binary.LittleEndian.Uint16(head[8:]) {
		p := r.person()
		if name, ok := names[p.Track]; ok {
			p.Track = name
			f.People = append(f.People, p)
		}
	}
	if errors.Is(r.err, io.EOF) {
		r.err = io.ErrUnexpectedEOF
	}
	return f, r.err
}

func (r *spoolReader) person() pose.Person {
	var p pose.Person
	p.Track = int(binary.LittleEndian.Uint32(r.take(4)))
	p.Score = float64(binary.LittleEndian.Uint16(r.take(2))) / scoreUnits
	for _, v := range []*float64{&p.Box.X, &p.Box.Y, &p.Box.W, &p.Box.H} {
		*v = pixels(r.take(4))
	}
	p.Keypoints = make([]pose.Keypoint, r.take(1)[0])
	for i := range p.Keypoints {
		b := r.take(10)
		if int32(binary.LittleEndian.Uint32(b)) == missing {
			continue
		}
		p.Keypoints[i] = pose.Keypoint{X: pixels(b), Y: pixels(b[4:]), Score: float64(binary.LittleEndian.Uint16(b[8:])) / scoreUnits, Found: true}
	}
	return p
}

func pixels(b []byte) float64 { return float64(int32(binary.LittleEndian.Uint32(b))) / pixelUnits }

// take reads n bytes, zeros after the first error.
func (r *spoolReader) take(n int) []byte {
	if r.err == nil {
		_, r.err = io.ReadFull(r.in, r.buf[:n])
	}
	if r.err != nil {
		clear(r.buf[:])
	}
	return r.buf[:n]
}
