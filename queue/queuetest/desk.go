package queuetest

import (
	"bufio"
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	engine "github.com/alicebob/miniredis/v2/server"
)

// desk gives commands to miniredis and reads its replies.
type desk struct {
	peer *engine.Peer
	out  *bytes.Buffer
	in   *bufio.Reader
}

func newDesk() *desk {
	out := &bytes.Buffer{}

	return &desk{peer: engine.NewPeer(bufio.NewWriter(out)), out: out, in: bufio.NewReader(out)}
}

func (d *desk) run(e *engine.Server, args []string) any {
	d.out.Reset()
	d.in.Reset(d.out)
	e.Dispatch(d.peer, args)
	d.peer.Flush()

	return scoresAsRedis(args, d.read())
}

func (d *desk) read() any {
	reply, err := engine.ParseReply(d.in)
	if err != nil {
		return failure(err.Error())
	}

	return plain(reply)
}

// plain turns what miniredis' parser answers into a reply.
func plain(reply any) any {
	switch r := reply.(type) {
	case engine.Simple:
		return status(r)
	case []any:
		all := make([]any, len(r))
		for i, v := range r {
			all[i] = plain(v)
		}

		return all
	}

	return reply
}

// scoresAsRedis writes the scores of sorted sets with all of their digits, as Redis does; miniredis writes 900000000000 as 9e+11, which
// scripts that compare texts take for another number.
func scoresAsRedis(args []string, reply any) any {
	every := 0 // the distance of scores in the reply

	switch args[0] {
	case "ZSCORE", "ZINCRBY":
		if text, ok := reply.(string); ok {
			return score(text)
		}
	case "ZMSCORE":
		every = 1
	case "ZPOPMIN", "ZPOPMAX":
		every = 2
	default:
		if args[0][0] == 'Z' && slices.ContainsFunc(args, func(s string) bool { return strings.EqualFold(s, "WITHSCORES") }) {
			every = 2
		}
	}

	if all, ok := reply.([]any); ok && every > 0 {
		for i := every - 1; i < len(all); i += every {
			if text, ok := all[i].(string); ok {
				all[i] = score(text)
			}
		}
	}

	return reply
}

func score(text string) string {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(n, 0) {
		return text
	}

	return commandNumber(n)
}
