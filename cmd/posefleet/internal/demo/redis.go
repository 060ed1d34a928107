package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/freeport"
	"github.com/posefleet/posefleet/queue"
)

const (
	redisStart = 10 * time.Second
	redisStop  = 3 * time.Second
	redisPoll  = 10 * time.Millisecond
	redisTries = 5
	clearLimit = 5 * time.Second
)

// errNoRedis says how to get on without a redis-server program.
var errNoRedis = errors.New("redis-server is not installed: install it (Debian: apt-get install redis-server) or give --redis-url")

// redisServer is a redis-server child of the demo: on a free loopback port, nothing on disk but its folder.
type redisServer struct {
	address string
	url     string
	proc    *child.Process
}

// startRedis starts a server that keeps its data in memory and whatever it writes in dir. The caller ends it by stop.
func startRedis(ctx context.Context, dir string) (*redisServer, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNoRedis
	}

	for try := 1; ; try++ {
		server, err := launchRedis(ctx, program, dir)
		// Another process may have taken the port between our look and the server's bind.
		if err == nil || try == redisTries || ctx.Err() != nil {
			return server, err
		}
	}
}

func launchRedis(ctx context.Context, program, dir string) (*redisServer, error) {
	port, err := freeport.Find()
	if err != nil {
		return nil, err
	}

	cmd := exec.Command(program, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no",
		"--daemonize", "no", "--maxmemory-policy", "noeviction")
	// A group of its own: Ctrl-C is for the demo, which ends Redis after the worker, not before.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	proc, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}

	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := awaitRedis(ctx, proc, address); err != nil {
		proc.Kill()

		return nil, fmt.Errorf("start redis-server: %w", err)
	}

	return &redisServer{address: address, url: "redis://" + address + "/0", proc: proc}, nil
}

// awaitRedis waits until this very child answers: a stranger on the same port would answer as well.
func awaitRedis(ctx context.Context, proc *child.Process, address string) error {
	ctx, cancel := context.WithTimeout(ctx, redisStart)
	defer cancel()

	client := redis.NewClient(&redis.Options{Addr: address, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	defer client.Close()

	tick := time.NewTicker(redisPoll)
	defer tick.Stop()

	for {
		if info := client.InfoMap(ctx, "server"); info.Item("Server", "process_id") == strconv.Itoa(proc.Pid()) {
			return nil
		}

		select {
		case <-tick.C:
		case <-proc.Done():
			return fmt.Errorf("it ended at once: %w: %s", proc.Err(), proc.Output())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stop ends the server.
func (s *redisServer) stop() error { return s.proc.Stop(syscall.SIGTERM, redisStop) }

// clearQueue removes the run's queue from a Redis that is not the demo's.
func clearQueue(o queue.Options) error {
	ctx, cancel := context.WithTimeout(context.Background(), clearLimit)
	defer cancel()

	options, err := queue.ParseRedisURL(o.RedisURL)
	if err != nil {
		return err
	}

	client := redis.NewUniversalClient(options)
	defer client.Close()

	keys := client.Scan(ctx, 0, o.Prefix+":"+o.Name+":*", 0).Iterator()
	for keys.Next(ctx) {
		if err := client.Unlink(ctx, keys.Val()).Err(); err != nil {
			return fmt.Errorf("clear the queue: %w", err)
		}
	}

	if err := keys.Err(); err != nil {
		return fmt.Errorf("clear the queue: %w", err)
	}

	return nil
}
