package queuetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// addJSON is the part of Redis' cjson that scripts of queues use. Like cjson it writes an empty table as an object, and numbers with 14
// digits.
func addJSON(l *lua.LState) {
	null := l.NewUserData()
	t := l.NewTable()
	t.RawSetString("null", null)
	l.SetFuncs(t, map[string]lua.LGFunction{
		"decode": func(l *lua.LState) int {
			var v any

			d := json.NewDecoder(strings.NewReader(l.CheckString(1)))
			if err := d.Decode(&v); err != nil {
				l.RaiseError("Expected value but found invalid token: %s", err.Error())
			}

			l.Push(jsonToLua(l, v, null))

			return 1
		},
		"encode": func(l *lua.LState) int {
			var b strings.Builder

			if err := luaToJSON(&b, l.CheckAny(1), null); err != nil {
				l.RaiseError("%s", err.Error())
			}

			l.Push(lua.LString(b.String()))

			return 1
		},
	})
	l.SetGlobal("cjson", t)
}

func jsonToLua(l *lua.LState, v any, null lua.LValue) lua.LValue {
	switch v := v.(type) {
	case bool:
		return lua.LBool(v)
	case float64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case []any:
		t := l.CreateTable(len(v), 0)
		for i, element := range v {
			t.RawSetInt(i+1, jsonToLua(l, element, null))
		}

		return t
	case map[string]any:
		t := l.CreateTable(0, len(v))
		for name, element := range v {
			t.RawSetString(name, jsonToLua(l, element, null))
		}

		return t
	}

	return null
}

func luaToJSON(b *strings.Builder, v, null lua.LValue) error {
	if v == null || v == lua.LNil {
		b.WriteString("null")
		return nil
	}

	switch v := v.(type) {
	case lua.LBool:
		b.WriteString(strconv.FormatBool(bool(v)))
	case lua.LNumber:
		b.WriteString(strconv.FormatFloat(float64(v), 'g', 14, 64))
	case lua.LString:
		text, err := json.Marshal(string(v))
		if err != nil {
			return err
		}

		b.Write(text)
	case *lua.LTable:
		return tableToJSON(b, v, null)
	default:
		return fmt.Errorf("Cannot serialise %s: type not supported", v.Type()) //nolint:staticcheck // cjson's words
	}

	return nil
}

func tableToJSON(b *strings.Builder, t *lua.LTable, null lua.LValue) error {
	if n := t.Len(); n > 0 {
		for i := 1; i <= n; i++ {
			b.WriteByte(separator(i == 1, '['))

			if err := luaToJSON(b, t.RawGetInt(i), null); err != nil {
				return err
			}
		}

		b.WriteByte(']')

		return nil
	}

	var names []string

	t.ForEach(func(name, _ lua.LValue) { names = append(names, name.String()) })
	slices.Sort(names)

	if len(names) == 0 {
		b.WriteByte('{')
	}

	for i, name := range names {
		b.WriteByte(separator(i == 0, '{'))

		if err := luaToJSON(b, lua.LString(name), null); err != nil {
			return err
		}

		b.WriteByte(':')

		if err := luaToJSON(b, t.RawGetString(name), null); err != nil {
			return err
		}
	}

	b.WriteByte('}')

	return nil
}

func separator(first bool, open byte) byte {
	if first {
		return open
	}

	return ','
}
