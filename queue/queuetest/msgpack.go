package queuetest

import (
	"encoding/binary"

	lua "github.com/yuin/gopher-lua"
)

// addPack is the part of Redis' cmsgpack that scripts of queues use: arrays of texts, numbers, truth values and arrays, packed.
func addPack(l *lua.LState) {
	t := l.NewTable()
	l.SetFuncs(t, map[string]lua.LGFunction{
		"pack": func(l *lua.LState) int {
			var packed []byte
			for i := range l.GetTop() {
				packed = pack(l, packed, l.CheckAny(i+1))
			}

			l.Push(lua.LString(packed))

			return 1
		},
	})
	l.SetGlobal("cmsgpack", t)
}

func pack(l *lua.LState, to []byte, v lua.LValue) []byte {
	switch v := v.(type) {
	case lua.LString:
		return append(packHead(to, len(v), 31, 0xa0, 0xd9), v...)
	case *lua.LTable:
		to = packHead(to, v.Len(), 15, 0x90, 0)
		for i := range v.Len() {
			to = pack(l, to, v.RawGetInt(i+1))
		}

		return to
	case lua.LBool:
		if v {
			return append(to, 0xc3)
		}

		return append(to, 0xc2)
	case lua.LNumber:
		if v == lua.LNumber(int(v)) && v >= 0 && v < 128 {
			return append(to, byte(v))
		}
	}

	l.RaiseError("cmsgpack.pack: no %s here", v.Type().String())

	return to
}

// packHead is the head of a text or an array: its kind and length. tiny is the kind that holds a length up to most; small is the one with a
// length of one byte, which arrays don't have; those of two and four bytes follow it.
func packHead(to []byte, n, most int, tiny, small byte) []byte {
	wide := small + 1
	if small == 0 {
		wide = 0xdc
	}

	switch {
	case n <= most:
		return append(to, tiny|byte(n))
	case small != 0 && n < 1<<8:
		return append(to, small, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(to, wide), uint16(n))
	}

	return binary.BigEndian.AppendUint32(append(to, wide+1), uint32(n))
}
