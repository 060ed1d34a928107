package queuetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Replies are Go values: nil, int, string, status, failure, or []any of them.
type (
	status  string // a simple string, such as OK
	failure string // an error reply: a code in capitals and words
)

// noReplies is the null array, by which blocking reads tell that their time is over.
type noReplies struct{}

var errNoCommand = errors.New("not a command in Redis' protocol")

// longestCommand bounds what one command may claim to hold, as Redis does.
const longestCommand = 1 << 20

// readCommand reads an array of bulk strings.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r, '*')
	if err != nil {
		return nil, err
	}

	if n < 1 || n > longestCommand {
		return nil, errNoCommand
	}

	args := make([]string, n)

	for i := range args {
		size, err := readLength(r, '$')
		if err != nil {
			return nil, err
		}

		if size < 0 {
			return nil, errNoCommand
		}

		text := make([]byte, size+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}

		args[i] = string(text[:size])
	}

	return args, nil
}

func readLength(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}

	line = strings.TrimSuffix(line, "\r\n")
	if line == "" || line[0] != kind {
		return 0, errNoCommand
	}

	return strconv.Atoi(line[1:])
}

// writeReply writes in the second version of the protocol.
func writeReply(w *bufio.Writer, reply any) {
	switch r := reply.(type) {
	case int:
		fmt.Fprintf(w, ":%d\r\n", r)
	case string:
		fmt.Fprintf(w, "$%d\r\n%s\r\n", len(r), r)
	case status:
		fmt.Fprintf(w, "+%s\r\n", string(r))
	case failure:
		fmt.Fprintf(w, "-%s\r\n", strings.NewReplacer("\r", " ", "\n", " ").Replace(string(r)))
	case noReplies:
		_, _ = w.WriteString("*-1\r\n") // the flush tells
	case []any:
		fmt.Fprintf(w, "*%d\r\n", len(r))

		for _, v := range r {
			writeReply(w, v)
		}
	default:
		_, _ = w.WriteString("$-1\r\n")
	}
}
