package tflite

import (
	"encoding/binary"
	"errors"
	"math"
)

// errMalformed is what every read outside of the file comes to.
var errMalformed = errors.New("malformed FlatBuffer")

// flat is a FlatBuffers file. Reads outside of it return zero values and leave err set, so that parsing code can
// be read straight through and check once at the end. Nothing here recurses and nothing allocates by a number in
// the file before the bytes for it were seen.
type flat struct {
	b   []byte
	err error
}

// table is one table of the file: pos is where it starts, fields the part of its vtable that lists the fields.
type table struct {
	f      *flat
	pos    int
	fields []byte
}

// vector is a vector of the file: pos is its first element.
type vector struct {
	f   *flat
	pos int
	n   int
}

// bytes returns n bytes at pos, or nil outside of the file.
func (f *flat) bytes(pos, n int) []byte {
	if pos < 0 || n < 0 || pos > len(f.b) || n > len(f.b)-pos {
		f.err = errMalformed
		return nil
	}
	return f.b[pos : pos+n]
}

func (f *flat) u8(pos int) uint8 {
	if b := f.bytes(pos, 1); b != nil {
		return b[0]
	}
	return 0
}

func (f *flat) u16(pos int) uint16 {
	if b := f.bytes(pos, 2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (f *flat) u32(pos int) uint32 {
	if b := f.bytes(pos, 4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// follow reads the offset at pos and returns where it leads.
func (f *flat) follow(pos int) int {
	off := f.u32(pos)
	if off > math.MaxInt32 {
		f.err = errMalformed
		return -1
	}
	return pos + int(off)
}

// table reads the table that starts at pos.
func (f *flat) table(pos int) table {
	back := int(int32(f.u32(pos)))
	vt := pos - back
	size := int(f.u16(vt))
	if f.err != nil || size < 4 {
		f.err = errMalformed
		return table{f: f, pos: -1}
	}
	return table{f: f, pos: pos, fields: f.bytes(vt+4, size-4)}
}

// root is the table that the file starts with.
func (f *flat) root() table { return f.table(f.follow(0)) }

// at is the place of field i; false when the field is absent and has its default.
func (t table) at(i int) (int, bool) {
	if 2*i+2 > len(t.fields) {
		return 0, false
	}
	off := binary.LittleEndian.Uint16(t.fields[2*i:])
	return t.pos + int(off), off != 0
}

func (t table) u8(i int, absent uint8) uint8 {
	if pos, ok := t.at(i); ok {
		return t.f.u8(pos)
	}
	return absent
}

func (t table) i32(i int, absent int32) int32 {
	if pos, ok := t.at(i); ok {
		return int32(t.f.u32(pos))
	}
	return absent
}

// sub is the table in field i; false when it is absent.
func (t table) sub(i int) (table, bool) {
	pos, ok := t.at(i)
	if !ok {
		return table{}, false
	}
	s := t.f.table(t.f.follow(pos))
	return s, s.pos >= 0
}

// vec is the vector in field i, of elements of the given size; empty when it is absent or has more than limit
// elements, the latter with an error.
func (t table) vec(i, elem, limit int) vector {
	at, ok := t.at(i)
	if !ok {
		return vector{f: t.f}
	}
	pos := t.f.follow(at)
	n := t.f.u32(pos)
	if uint64(n) > uint64(limit) || t.f.bytes(pos+4, int(n)*elem) == nil && n > 0 {
		t.f.err = errMalformed
		return vector{f: t.f}
	}
	return vector{f: t.f, pos: pos + 4, n: int(n)}
}

// str is the string in field i.
func (t table) str(i int) string {
	v := t.vec(i, 1, maxName)
	return string(t.f.bytes(v.pos, v.n))
}

// data is the byte vector in field i.
func (t table) data(i int) []byte {
	v := t.vec(i, 1, math.MaxInt32)
	return t.f.bytes(v.pos, v.n)
}

// table is element i of a vector of tables.
func (v vector) table(i int) table { return v.f.table(v.f.follow(v.pos + 4*i)) }

// ints returns a vector of 32-bit numbers.
func (v vector) ints() []int {
	out := make([]int, v.n)
	for i := range out {
		out[i] = int(int32(v.f.u32(v.pos + 4*i)))
	}
	return out
}

// ints16 returns a vector of unsigned 16-bit numbers.
func (v vector) ints16() []int {
	out := make([]int, v.n)
	for i := range out {
		out[i] = int(v.f.u16(v.pos + 2*i))
	}
	return out
}

// ints8 returns a vector of unsigned bytes.
func (v vector) ints8() []int {
	out := make([]int, v.n)
	for i := range out {
		out[i] = int(v.f.u8(v.pos + i))
	}
	return out
}
