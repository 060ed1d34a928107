package doctor

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
)

func optionsOf(url string) queue.Options {
	return queue.Options{RedisURL: url, Prefix: "bull", Name: "pose"}
}

func add(t *testing.T, o queue.Options, name string, data any) {
	t.Helper()

	q, err := queue.NewQueue(o)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()

	if _, err := q.Add(t.Context(), name, data, queue.JobOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestRedisItself(t *testing.T) {
	t.Parallel()

	s := redistest.Start(t)
	r := s.Client()
	ctx := t.Context()

	found := examineRedis(ctx, optionsOf(s.URL))
	expect(t, one(t, found, "redis"), OK, "(standalone) at "+s.Addr)
	expect(t, one(t, found, "eviction"), OK)
	expect(t, one(t, found, "redis memory"), OK, "no limit")
	expect(t, one(t, found, "redis clock"), OK)
	expect(t, one(t, found, "queue"), OK, "bull:pose holds no jobs")
	expect(t, one(t, found, "bullmq"), OK)
	expect(t, one(t, found, "other queues"), OK, "0 queues")

	config := func(name, value string) {
		t.Helper()

		if err := r.ConfigSet(ctx, name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}

	config("maxmemory-policy", "volatile-lru")
	expect(t, one(t, examineRedis(ctx, optionsOf(s.URL)), "eviction"), Fail, "volatile-lru", "noeviction")

	config("maxmemory-policy", "noeviction")
	config("maxmemory", "1000000000")
	expect(t, one(t, examineRedis(ctx, optionsOf(s.URL)), "redis memory"), OK, "of 954 MiB used")
	config("maxmemory", "500000") // less than an empty Redis takes
	expect(t, one(t, examineRedis(ctx, optionsOf(s.URL)), "redis memory"), Fail, "no job can be added")
	config("maxmemory", "0")

	// Managed services: CONFIG is forbidden, or INFO too. Neither is a fault.
	for user, rights := range map[string][]any{"managed": {"+@all", "-config"}, "few": {"+@all", "-config", "-info", "-time", "-client"}} {
		if err := r.Do(ctx, append([]any{"ACL", "SETUSER", user, "on", ">canary", "~*"}, rights...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}

	found = examineRedis(ctx, optionsOf("redis://managed:canary@"+s.Addr))
	expect(t, one(t, found, "eviction"), OK)

	found = examineRedis(ctx, optionsOf("redis://few:canary@"+s.Addr))
	expect(t, one(t, found, "redis"), Warn, "INFO")
	expect(t, one(t, found, "eviction"), Warn, "INFO and CONFIG")
	expect(t, one(t, found, "redis clock"), Warn, "TIME")
	expect(t, one(t, found, "queue"), OK, "workers not known")

	// No scripts, no work.
	if err := r.Do(ctx, "ACL", "SETUSER", "mute", "on", ">canary", "~*", "+@all", "-@scripting").Err(); err != nil {
		t.Fatal(err)
	}

	found = examineRedis(ctx, optionsOf("redis://mute:canary@"+s.Addr))
	expect(t, one(t, found, "redis rights"), Fail, "bull:*")

	s.Kill()

	found = examineRedis(ctx, optionsOf("redis://:canary@"+s.Addr))
	if len(found) != 1 {
		t.Error("more than one line about a Redis that is away:", found)
	}

	expect(t, found[0], Fail, "refused", s.Addr)
}

func TestRedisThatCanNotBeUsed(t *testing.T) {
	t.Parallel()

	ctx := t.Context()
	locked := redistest.Start(t)

	if err := locked.Client().ConfigSet(ctx, "requirepass", "canary1").Err(); err != nil {
		t.Fatal(err)
	}

	for _, url := range []string{"redis://:canary2@" + locked.Addr, locked.URL} {
		found := examineRedis(ctx, optionsOf(url))
		expect(t, found[0], Fail, "refuses user or password")

		if strings.Contains(found[0].String(), "canary") {
			t.Error(found[0])
		}
	}

	cluster := redistest.Start(t, "--cluster-enabled", "yes")
	expect(t, one(t, examineRedis(ctx, optionsOf(cluster.URL)), "redis"), Fail, "Cluster", "{bull}")

	master := redistest.Start(t)
	replica := redistest.Start(t, "--replicaof", "127.0.0.1", strings.TrimPrefix(master.URL, "redis://127.0.0.1:"))
	wait.For(t, patience, func() bool {
		return strings.Contains(replica.Client().Info(ctx, "replication").Val(), "master_link_status:up")
	})
	expect(t, one(t, examineRedis(ctx, optionsOf(replica.URL)), "redis"), Fail, "replica")

	// One that accepts and never answers costs its time and no more.
	master.Pause()
	defer master.Resume()

	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()

	started := time.Now()
	expect(t, examineRedis(short, optionsOf(master.URL))[0], Fail, "no answer in time")

	if took := time.Since(started); took > patience {
		t.Errorf("took %s", took)
	}
}

func TestQueue(t *testing.T) {
	t.Parallel()

	s := redistest.Start(t)
	r := s.Client()
	ctx := t.Context()
	ours := optionsOf(s.URL)

	check := func(name string, level Level, words ...string) {
		t.Helper()
		expect(t, one(t, examineRedis(ctx, ours), name), level, words...)
	}
	do := func(args ...any) {
		t.Helper()

		if err := r.Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
	}

	add(t, ours, protocol.JobName, protocol.NewJobData("an_1"))
	check("queue", Warn, "1 waiting", "no worker is connected")

	do("HSET", "bull:pose:meta", "paused", "1")
	check("queue", Warn, "is paused", "posefleet queue resume")

	// A major 5 client paused, and another one took the flag away.
	do("RENAME", "bull:pose:wait", "bull:pose:paused")
	do("HDEL", "bull:pose:meta", "paused")
	check("queue", Fail, "1 job lie", "posefleet queue resume")
	do("RENAME", "bull:pose:paused", "bull:pose:wait")

	for version, level := range map[string]Level{
		"bullmq:6.7.0": OK, "bullmq:5.81.5": Warn, "bullmq:4.18.2": Fail, "bullmq:7.0.0": Warn, "bullmq-go:1.0.0": OK,
	} {
		do("HSET", "bull:pose:meta", "version", version)
		check("bullmq", level, strings.TrimPrefix(version, "bullmq:"))
	}

	do("DEL", "bull:pose:meta")
	check("queue", Fail, "Bull")

	do("DEL", "bull:pose:wait")
	do("SET", "bull:pose:wait", "x")
	check("queue", Fail, "can't be read")
}

func TestOtherQueues(t *testing.T) {
	t.Parallel()

	analysis := protocol.NewJobData("an_1")

	tests := []struct {
		name  string
		other queue.Options // Prefix and Name
		job   string
		data  any
		ours  bool // ours has a job as well
		taken bool // a worker is connected to the other one
		level Level
		words []string
	}{
		{
			"analyses under another prefix",
			queue.Options{Prefix: "app:bull", Name: "pose"},
			protocol.JobName, analysis, false, false, Fail,
			[]string{"app:bull:pose holds 1 waiting", "while bull:pose has none", "POSEFLEET_PREFIX"},
		},
		{
			"analyses under another name",
			queue.Options{Prefix: "bull", Name: "extraction"},
			protocol.JobName, analysis, false, false, Fail,
			[]string{"bull:extraction", "analyses", "POSEFLEET_QUEUE"},
		},
		{"analyses in both", queue.Options{Prefix: "bull", Name: "extraction"}, protocol.JobName, analysis, true, false, Warn, []string{"bull:extraction"}},
		{"analyses that somebody works on", queue.Options{Prefix: "staging", Name: "pose"}, protocol.JobName, analysis, true, true, OK, []string{"1 queue beside bull:pose"}},
		{"the same name", queue.Options{Prefix: "{bull}", Name: "pose"}, "other", nil, false, false, Fail, []string{"{bull}:pose"}},
		{"nearly the same name", queue.Options{Prefix: "bull", Name: "Poses"}, "other", nil, false, false, Fail, []string{"bull:Poses"}},
		{"another queue", queue.Options{Prefix: "bull", Name: "mail"}, "send", nil, false, false, Warn, []string{"bull:mail", "if those jobs are meant for it"}},
		{"another queue with a worker", queue.Options{Prefix: "bull", Name: "mail"}, "send", nil, false, true, Warn, []string{"bull:mail"}},
		{"another queue while we have work", queue.Options{Prefix: "bull", Name: "mail"}, "send", nil, true, false, OK, []string{"1 with jobs to do"}},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			s := redistest.Start(t)
			ours := optionsOf(s.URL)
			tt.other.RedisURL = s.URL
			add(t, tt.other, tt.job, tt.data)

			if tt.ours {
				add(t, ours, protocol.JobName, analysis)
			}

			if tt.taken {
				connect(t, s.Client(), tt.other)
			}

			expect(t, one(t, examineRedis(t.Context(), ours), "other queues"), tt.level, tt.words...)
		})
	}
}

// connect lets a worker appear at a queue that takes nothing, since somebody has paused the queue.
func connect(t *testing.T, r *redis.Client, o queue.Options) {
	t.Helper()

	if err := r.HSet(t.Context(), o.Prefix+":"+o.Name+":meta", "paused", "1").Err(); err != nil {
		t.Fatal(err)
	}

	wo := queue.DefaultWorkerOptions()
	wo.Options = o

	w, err := queue.NewWorker(wo, func(context.Context, *queue.Job) (any, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())

	var wg sync.WaitGroup

	wg.Go(func() { _ = w.Run(ctx) }) // ends with the test

	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})

	q, err := queue.NewQueue(o)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()

	wait.For(t, patience, func() bool {
		workers, err := q.Workers(t.Context())

		return err == nil && len(workers) == 1
	})
}
