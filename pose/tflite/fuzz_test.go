package tflite_test

import (
	"encoding/binary"
	"testing"

	"github.com/posefleet/posefleet/pose/onnx"
	"github.com/posefleet/posefleet/pose/tflite"
)

// Whatever the bytes, a conversion ends with a model or an error.
func FuzzConvert(f *testing.F) {
	for _, c := range cases() {
		file, _ := c.file()
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		b, err := tflite.Convert(file, tflite.Options{})
		if err != nil {
			return
		}
		if _, err := onnx.ReadHeader(b); err != nil {
			t.Errorf("the converted model cannot be read: %v", err)
		}
	})
}

// Every byte of a file, flipped, must end in a model or an error too; that reaches what random fuzzing reaches late.
func TestFlippedBytes(t *testing.T) {
	t.Parallel()
	for _, c := range cases() {
		file, _ := c.file()
		for i := range file {
			for _, mask := range []byte{0x01, 0x80, 0xff} {
				file[i] ^= mask
				_, _ = tflite.Convert(file, tflite.Options{OpenCV: i%2 == 0})
				file[i] ^= mask
			}
		}
		for n := range file {
			if _, err := tflite.Convert(file[:n], tflite.Options{}); err == nil && n < len(file)/2 {
				t.Errorf("%s: the first %d of %d bytes are a model", c.name, n, len(file))
			}
		}
	}
}

func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	shared := func() []byte { // one constant of 4 MiB under 200 names
		n := newNet()
		last := n.tensor("in", 1, 1, 1, 1)
		n.tensor("out", 1, 1, 1, 1)
		data := n.raw(0, make([]byte, 4<<20), 1, 1, 1, 1<<20)
		for range 200 {
			c := n.raw(0, nil, 1, 1, 1, 1<<20)
			n.tensors[c][2] = n.tensors[data][2]
			next := n.tensor("t", 1, 1, 1, 1<<20)
			n.op(codeAdd, fields{0: actNone}, next, last, c)
			last = next
		}
		return n.file([]int32{0}, []int32{last})
	}
	unknown := func() []byte {
		n := newNet()
		n.tensor("in", 1, 1, 1, 1)
		n.op(9, nil, n.tensor("out", 1, 1), 0)
		return n.file([]int32{0}, []int32{1})
	}
	loop := func() []byte {
		n := newNet()
		n.tensor("in", 1, 1, 1, 1)
		a, b := n.tensor("a", 1, 1, 1, 1), n.tensor("b", 1, 1, 1, 1)
		n.op(codeAdd, fields{0: actNone}, a, 0, b)
		n.op(codeAdd, fields{0: actNone}, b, 0, a)
		return n.file([]int32{0}, []int32{b})
	}
	padded := func() []byte {
		n := newNet()
		n.tensor("in", 1, 4, 4, 1)
		p, out := n.tensor("p", 1, 6, 6, 1), n.tensor("out", 1, 3, 3, 1)
		n.op(codePad, nil, p, 0, n.ints([]int32{0, 0, 1, 1, 1, 1, 0, 0}, 4, 2))
		n.op(codeMaxPool, fields{0: padValid, 1: int32(2), 2: int32(2), 3: int32(2), 4: int32(2)}, out, p)
		return n.file([]int32{0}, []int32{out})
	}
	hugeCount := binary.LittleEndian.AppendUint32([]byte("\x08\x00\x00\x00TFL3"), 0xfffffff0)
	for name, file := range map[string][]byte{
		"empty":                       nil,
		"text":                        []byte("hello, this is text"),
		"header only":                 []byte("\x08\x00\x00\x00TFL3"),
		"offset out of the file":      hugeCount,
		"unknown operator":            unknown(),
		"operators in a loop":         loop(),
		"one constant a million ways": shared(),
		"pad in front of a pool":      padded(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := tflite.Convert(file, tflite.Options{}); err == nil {
				t.Error("no error")
			}
		})
	}
}
