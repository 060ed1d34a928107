package queuetest

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// luaStack leaves room for unpack of some thousand values, which scripts use.
const (
	luaStack     = 1 << 12
	luaStackMost = 1 << 17
)

// call runs a Redis command for a script.
type call func(args []string) any

// interpreter runs scripts. One state serves all of them, as in a Redis server: making one costs more than most scripts do.
type interpreter struct {
	state   *lua.LState
	scripts map[string]*lua.FunctionProto // by SHA-1
	call    call                          // of the script that runs
}

func newInterpreter() *interpreter {
	in := &interpreter{
		state: lua.NewState(lua.Options{
			SkipOpenLibs: true, RegistrySize: luaStack, RegistryMaxSize: luaStackMost, RegistryGrowStep: luaStack,
		}),
		scripts: map[string]*lua.FunctionProto{},
	}
	l := in.state

	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		l.Push(l.NewFunction(open))
		l.Push(lua.LString(name))
		l.Call(1, 0)
	}

	in.addRedis()
	addJSON(l)
	addPack(l)
	freezeGlobals(l)

	return in
}

func (in *interpreter) addRedis() {
	t := in.state.NewTable()
	in.state.SetFuncs(t, map[string]lua.LGFunction{
		"call":  func(l *lua.LState) int { return in.redisCall(l, true) },
		"pcall": func(l *lua.LState) int { return in.redisCall(l, false) },
		"sha1hex": func(l *lua.LState) int {
			l.Push(lua.LString(sumOf(l.CheckString(1))))
			return 1
		},
		"error_reply":  func(l *lua.LState) int { return pushField(l, "err", strings.TrimPrefix(l.CheckString(1), "-")) },
		"status_reply": func(l *lua.LState) int { return pushField(l, "ok", l.CheckString(1)) },
		"log":          func(*lua.LState) int { return 0 },
	})

	for i, level := range []string{"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"} {
		t.RawSetString(level, lua.LNumber(i))
	}

	in.state.SetGlobal("redis", t)
}

func pushField(l *lua.LState, name, value string) int {
	l.Push(fieldTable(l, name, value))

	return 1
}

func fieldTable(l *lua.LState, name, value string) *lua.LTable {
	t := l.NewTable()
	t.RawSetString(name, lua.LString(value))

	return t
}

// freezeGlobals refuses global variables, as Redis does: a script that leaves one behind would change the next one.
func freezeGlobals(l *lua.LState) {
	guard := l.NewTable()
	guard.RawSetString("__newindex", l.NewFunction(func(l *lua.LState) int {
		l.RaiseError("Script attempted to create global variable '%s'", l.ToString(2))
		return 0
	}))
	guard.RawSetString("__index", l.NewFunction(func(l *lua.LState) int {
		l.RaiseError("Script attempted to access nonexistent global variable '%s'", l.ToString(2))
		return 0
	}))
	l.SetMetatable(l.G.Global, guard)
}

// load compiles a script and answers its sum.
func (in *interpreter) load(text string) (sum string, err error) {
	sum = sumOf(text)
	if in.scripts[sum] != nil {
		return sum, nil
	}

	chunk, err := parse.Parse(strings.NewReader(text), "user_script")
	if err != nil {
		return "", fmt.Errorf("compile script: %w", err)
	}

	proto, err := lua.Compile(chunk, "user_script")
	if err != nil {
		return "", fmt.Errorf("compile script: %w", err)
	}

	in.scripts[sum] = proto

	return sum, nil
}

// run runs a loaded script and answers what it returns as a reply.
func (in *interpreter) run(sum string, keys, args []string, c call) any {
	l := in.state
	in.call = c

	l.G.Global.RawSetString("KEYS", stringTable(l, keys))
	l.G.Global.RawSetString("ARGV", stringTable(l, args))
	l.Push(l.NewFunctionFromProto(in.scripts[sum]))

	top := l.GetTop() - 1
	err := l.PCall(0, 1, nil)

	defer l.SetTop(top)

	if err != nil {
		return scriptFault(err)
	}

	return luaToReply(l.Get(-1))
}

// scriptFault is the error reply of a script that failed: that of the command, or what the script itself said.
func scriptFault(err error) failure {
	var fault *lua.ApiError
	if !errors.As(err, &fault) {
		return failure("ERR " + err.Error())
	}

	if t, ok := fault.Object.(*lua.LTable); ok {
		if text, ok := t.RawGetString("err").(lua.LString); ok {
			return failure(text)
		}
	}

	return failure("ERR " + strings.ReplaceAll(fault.Object.String(), "\n", " "))
}

func stringTable(l *lua.LState, values []string) *lua.LTable {
	t := l.CreateTable(len(values), 0)
	for _, v := range values {
		t.Append(lua.LString(v))
	}

	return t
}

func (in *interpreter) redisCall(l *lua.LState, raise bool) int {
	args := make([]string, l.GetTop())

	for i := range args {
		switch v := l.Get(i + 1).(type) {
		case lua.LNumber:
			args[i] = commandNumber(float64(v))
		case lua.LString:
			args[i] = string(v)
		default:
			l.RaiseError("Lua redis lib command arguments must be strings or integers")
		}
	}

	if len(args) == 0 {
		l.RaiseError("Please specify at least one argument for this redis lib call")
	}

	reply := in.call(args)
	if text, failed := reply.(failure); failed && raise {
		l.Error(fieldTable(l, "err", string(text)), 1)
	}

	l.Push(replyToLua(l, reply))

	return 1
}

// commandNumber is how Redis writes a script's number into a command: all of its digits, unlike Lua itself.
func commandNumber(n float64) string {
	if n == math.Trunc(n) && math.Abs(n) < 1e17 {
		return strconv.FormatInt(int64(n), 10)
	}

	return strconv.FormatFloat(n, 'g', 17, 64)
}

func replyToLua(l *lua.LState, reply any) lua.LValue {
	switch r := reply.(type) {
	case int:
		return lua.LNumber(r)
	case string:
		return lua.LString(r)
	case status:
		return fieldTable(l, "ok", string(r))
	case failure:
		return fieldTable(l, "err", string(r))
	case []any:
		t := l.CreateTable(len(r), 0)
		for i, v := range r {
			t.RawSetInt(i+1, replyToLua(l, v))
		}

		return t
	}

	return lua.LFalse
}

func luaToReply(v lua.LValue) any {
	switch v := v.(type) {
	case lua.LNumber:
		return int(v)
	case lua.LString:
		return string(v)
	case lua.LBool:
		if v {
			return 1
		}
	case *lua.LTable:
		return tableToReply(v)
	}

	return nil
}

func tableToReply(t *lua.LTable) any {
	if text, ok := t.RawGetString("err").(lua.LString); ok {
		return failure(text)
	}

	if text, ok := t.RawGetString("ok").(lua.LString); ok {
		return status(text)
	}

	all := []any{}

	for i := 1; ; i++ {
		v := t.RawGetInt(i)
		if v == lua.LNil {
			return all
		}

		all = append(all, luaToReply(v))
	}
}

func sumOf(text string) string {
	sum := sha1.Sum([]byte(text))

	return hex.EncodeToString(sum[:])
}
