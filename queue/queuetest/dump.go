package queuetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Dump writes all keys of the server with their types, remaining times to live and values, sorted, for a look at what a test has left
// there.
func (r *Redis) Dump(ctx context.Context) (string, error) { return DumpOf(ctx, r.client) }

// DumpOf is Dump of any server, for comparing.
func DumpOf(ctx context.Context, c *redis.Client) (string, error) {
	names, err := c.Keys(ctx, "*").Result()
	if err != nil {
		return "", fmt.Errorf("dump: %w", err)
	}

	slices.Sort(names)

	var b strings.Builder

	for _, key := range names {
		kind, err := c.Type(ctx, key).Result()
		if err != nil {
			return "", fmt.Errorf("dump %s: %w", key, err)
		}

		lines, err := dumpValue(ctx, c, kind, key)
		if err != nil {
			return "", fmt.Errorf("dump %s: %w", key, err)
		}

		if len(lines) == 0 {
			continue // it went between the two looks
		}

		fmt.Fprintf(&b, "%s  %s", key, kind)

		if left := c.PTTL(ctx, key).Val(); left > 0 {
			fmt.Fprintf(&b, "  %v left", left.Round(time.Millisecond))
		}

		b.WriteString("\n    " + strings.Join(lines, "\n    ") + "\n")
	}

	return b.String(), nil
}

func dumpValue(ctx context.Context, c *redis.Client, kind, key string) (lines []string, err error) {
	switch kind {
	case "string":
		value, err := c.Get(ctx, key).Result()
		return []string{value}, err
	case "list":
		return c.LRange(ctx, key, 0, -1).Result()
	case "set":
		lines, err = c.SMembers(ctx, key).Result()
		slices.Sort(lines)

		return lines, err
	case "hash":
		fields, err := c.HGetAll(ctx, key).Result()
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			lines = append(lines, name+" = "+fields[name])
		}

		return lines, err
	case "zset":
		members, err := c.ZRangeWithScores(ctx, key, 0, -1).Result()
		for _, m := range members {
			lines = append(lines, fmt.Sprintf("%.17g  %v", m.Score, m.Member))
		}

		return lines, err
	case "stream":
		return dumpStream(ctx, c, key)
	}

	return nil, nil
}

// dumpStream keeps the order of the fields, which a map would lose.
func dumpStream(ctx context.Context, c *redis.Client, key string) (lines []string, err error) {
	entries, err := c.Do(ctx, "XRANGE", key, "-", "+").Slice()

	for _, entry := range entries {
		parts, _ := entry.([]any)
		if len(parts) != 2 {
			continue
		}

		fields, _ := parts[1].([]any)
		line := []string{fmt.Sprint(parts[0])}

		for i := 0; i+1 < len(fields); i += 2 {
			line = append(line, fmt.Sprintf("%v=%v", fields[i], fields[i+1]))
		}

		lines = append(lines, strings.Join(line, "  "))
	}

	return lines, err
}
