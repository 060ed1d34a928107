package queuetest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// wait is a command that blocks until there is something to answer: the same command without the wait, run again after each change.
type wait struct {
	command []string
	timeout time.Duration // 0: for ever
	over    <-chan time.Time
	reply   func(any) any // nil: go on waiting
	stream  string        // whose end is the start of the read; "" once that is fixed
}

var (
	errTimeout    = errors.New("ERR timeout is not a float or out of range")
	errNotBlocked = errors.New("ERR queuetest blocks in BZPOPMIN of one key and in XREAD of one stream only")
)

// blocking takes a command that blocks apart; nil for others.
func blocking(args []string) (*wait, error) {
	switch args[0] {
	case "BZPOPMIN":
		return blockingPop(args)
	case "XREAD":
		if at := slices.IndexFunc(args, func(s string) bool { return strings.EqualFold(s, "BLOCK") }); at > 0 {
			return blockingRead(args, at)
		}
	case "BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BLMPOP", "BZPOPMAX", "BZMPOP", "XREADGROUP", "WAIT":
		return nil, errNotBlocked
	}

	return nil, nil //nolint:nilnil // no wait is a good answer
}

func blockingPop(args []string) (*wait, error) {
	if len(args) != 3 {
		return nil, errNotBlocked
	}

	seconds, err := strconv.ParseFloat(args[2], 64)
	if err != nil || seconds < 0 {
		return nil, errTimeout
	}

	key := args[1]

	return &wait{
		command: []string{"ZPOPMIN", key},
		timeout: time.Duration(seconds * float64(time.Second)),
		reply: func(reply any) any {
			if pair, ok := reply.([]any); ok {
				if len(pair) == 0 {
					return nil
				}

				return append([]any{key}, pair...)
			}

			return reply
		},
	}, nil
}

func blockingRead(args []string, at int) (*wait, error) {
	if at+1 >= len(args) {
		return nil, errTimeout
	}

	millis, err := strconv.ParseInt(args[at+1], 10, 64)
	if err != nil || millis < 0 {
		return nil, errTimeout
	}

	w := &wait{
		command: slices.Delete(slices.Clone(args), at, at+2),
		timeout: time.Duration(millis) * time.Millisecond,
		reply:   func(reply any) any { return reply },
	}

	n := len(w.command)
	if n < 4 || !strings.EqualFold(w.command[n-3], "STREAMS") {
		return nil, errNotBlocked
	}

	if w.command[n-1] == "$" {
		w.stream = w.command[n-2]
	}

	return w, nil
}

// fixStart turns "from now on" into the id of the stream's newest entry.
func (s *server) fixStart(c *client, w *wait) {
	start := "0-0"

	newest, _ := c.desk.run(s.mini.Server(), []string{"XREVRANGE", w.stream, "+", "-", "COUNT", "1"}).([]any)
	if len(newest) > 0 {
		if entry, ok := newest[0].([]any); ok && len(entry) > 0 {
			start, _ = entry[0].(string)
		}
	}

	w.command[len(w.command)-1] = start
	w.stream = ""
}
