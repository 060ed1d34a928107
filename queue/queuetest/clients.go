package queuetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// clientCommand is CLIENT, by which workers make themselves known.
func (s *server) clientCommand(c *client, args []string) any {
	if len(args) == 0 {
		return failure("ERR wrong number of arguments for 'client' command")
	}

	switch sub := strings.ToUpper(args[0]); {
	case sub == "ID":
		return c.id
	case sub == "GETNAME":
		return c.name
	case sub == "SETNAME" && len(args) == 2:
		if strings.ContainsFunc(args[1], func(r rune) bool { return r < '!' || r > '~' }) {
			return failure("ERR Client names cannot contain spaces, newlines or special characters.")
		}

		c.name = args[1]

		return status("OK")
	case sub == "SETINFO":
		return status("OK")
	case sub == "LIST" && len(args) == 1:
		return s.clientList()
	}

	return failure("ERR unknown subcommand or wrong number of arguments of CLIENT")
}

func (s *server) clientList() string {
	var b strings.Builder

	now := time.Now()
	all := slices.SortedFunc(maps.Keys(s.clients), func(a, b *client) int { return cmp.Compare(a.id, b.id) })

	for _, c := range all {
		fmt.Fprintf(&b, "id=%d addr=memory:%d name=%s age=%d idle=%d flags=N db=%d\n",
			c.id, c.id, c.name, int(now.Sub(c.since).Seconds()), int(now.Sub(c.last).Seconds()), c.db)
	}

	return b.String()
}
