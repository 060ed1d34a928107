package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is what one Redis server tells about itself. What it does not tell, because the user may not ask, is zero and named in Denied.
type Server struct {
	// Product is redis, or what took its place (valkey, dragonfly); Version is the version of the Redis protocol and commands that it
	// claims, "" if unknown.
	Product, Version string
	// Mode is standalone, cluster or sentinel.
	Mode string
	// ReadOnly: a replica, which refuses writes.
	ReadOnly bool
	// Policy is maxmemory-policy, "" if unknown. BullMQ needs noeviction: every other policy may remove locks or jobs.
	Policy string
	// MaxMemory and UsedMemory are in bytes; a MaxMemory of 0 means no limit, if Policy is known.
	MaxMemory, UsedMemory int64
	// ClockAhead is how far the server's clock is before ours, give or take ClockError. ClockError is 0 if the server does not tell.
	ClockAhead, ClockError time.Duration
	// RoundTrip is the time of one short command.
	RoundTrip time.Duration
	// Denied are the commands that were refused.
	Denied []string
}

// Servers asks the Redis server, on a Cluster each master, about itself. It changes nothing.
func (q *Queue) Servers(ctx context.Context) ([]Server, error) {
	var all []Server

	err := eachMaster(ctx, q.client.get(), func(ctx context.Context, c redis.Cmdable) error {
		s, err := readServer(ctx, c)
		if err == nil {
			all = append(all, s)
		}

		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask redis about itself: %w", err)
	}

	return all, nil
}

// eachMaster calls fn for every server that holds keys, one after the other.
func eachMaster(ctx context.Context, c redis.UniversalClient, fn func(context.Context, redis.Cmdable) error) error {
	cluster, ok := c.(*redis.ClusterClient)
	if !ok {
		return fn(ctx, c)
	}

	var mu sync.Mutex // the driver calls for all nodes at once

	return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()

		return fn(ctx, node)
	})
}

func readServer(ctx context.Context, c redis.Cmdable) (Server, error) {
	var s Server

	if err := c.Ping(ctx).Err(); err != nil { // makes the connection, so that its cost is in no measurement below
		return s, err
	}

	sent := time.Now()
	at, err := c.Time(ctx).Result()
	s.RoundTrip = time.Since(sent)

	if err := s.denied("TIME", err); err != nil {
		return s, err
	}

	if err == nil {
		s.ClockError = s.RoundTrip/2 + time.Microsecond
		s.ClockAhead = at.Sub(sent.Add(s.RoundTrip / 2))
	}

	return s, s.readInfo(ctx, c)
}

// denied notes a command that the server refuses; other errors are passed on.
func (s *Server) denied(command string, err error) error {
	if err == nil || !isReply(err) || errors.Is(err, redis.Nil) {
		return err
	}

	s.Denied = append(s.Denied, command)

	return nil
}

func (s *Server) readInfo(ctx context.Context, c redis.Cmdable) error {
	text, err := c.Info(ctx).Result()
	if err := s.denied("INFO", err); err != nil {
		return err
	}

	info := infoFields(text)
	s.Product, s.Version, s.Mode = product(info), info["redis_version"], info["redis_mode"]
	s.ReadOnly = info["role"] == "slave" || info["role"] == "replica"
	s.Policy = info["maxmemory_policy"]
	s.MaxMemory, s.UsedMemory = integer(info["maxmemory"]), integer(info["used_memory"])

	if s.Policy != "" {
		return nil
	}

	// Managed services forbid the one and allow the other.
	values, err := c.ConfigGet(ctx, "maxmemory-policy").Result()
	s.Policy = values["maxmemory-policy"]

	return s.denied("CONFIG", err)
}

func product(info map[string]string) string {
	switch {
	case info["dragonfly_version"] != "":
		return "dragonfly"
	case info["valkey_version"] != "" || info["server_name"] == "valkey":
		return "valkey"
	}

	return "redis"
}

// infoFields reads the lines name:value of INFO.
func infoFields(text string) map[string]string {
	fields := make(map[string]string)

	for row := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(row), ":"); ok {
			fields[name] = value
		}
	}

	return fields
}

func integer(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}

	return n
}
