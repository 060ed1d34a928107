package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
)

func TestSightAndOthers(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	ours := k.queue("pose")
	ctx := t.Context()

	prefixed, err := NewQueue(Options{RedisURL: k.url, Prefix: "my:app", Name: "pose"})
	k.must(err)
	t.Cleanup(func() { _ = prefixed.Close() })
	k.add(prefixed, "a", nil, JobOptions{})
	k.add(prefixed, "a", nil, JobOptions{Delay: time.Hour})
	k.must(k.r.HSet(ctx, "my:app:pose:meta", "version", "bullmq:5.81.5").Err())

	// What major 5 leaves behind when it pauses, what Bull has, and what only looks like a queue.
	k.must(k.r.HSet(ctx, "bull:mail:meta", "paused", "1", "version", "bullmq:6.7.0").Err())
	k.must(k.r.LPush(ctx, "bull:mail:paused", "1", "2").Err())
	k.must(k.r.Set(ctx, "bull:old:id", "7", 0).Err())
	k.must(k.r.LPush(ctx, "bull:old:wait", "7").Err())
	k.must(k.r.Set(ctx, "user:7:meta", "x", 0).Err())
	k.must(k.r.Set(ctx, "x:meta", "x", 0).Err())
	k.must(k.r.HSet(ctx, "bull:pose:mein", "name", "a").Err())

	self, err := ours.Sight(ctx)
	k.must(err)

	if want := (Sighting{Prefix: "bull", Name: "pose"}); self != want {
		t.Errorf("a queue that was never used: %+v", self)
	}

	k.add(ours, "a", nil, JobOptions{Priority: 1})

	found, complete, err := ours.Others(ctx, SightBounds{})
	k.must(err)

	want := []Sighting{
		{Prefix: "bull", Name: "mail", Version: "bullmq:6.7.0", Meta: true, Counts: Counts{Waiting: 2, Paused: true}, Moved: 2},
		{Prefix: "bull", Name: "old", Counts: Counts{Waiting: 1}},
		{Prefix: "my:app", Name: "pose", Version: "bullmq:5.81.5", Meta: true, Counts: Counts{Waiting: 1, Delayed: 1}},
	}
	if diff := cmp.Diff(want, found); diff != "" || !complete {
		t.Errorf("complete %v, %s", complete, diff)
	}

	if n := found[2].Pending(); n != 2 {
		t.Errorf("%d jobs pending", n)
	}

	if found, complete, err := ours.Others(ctx, SightBounds{Queues: 1}); err != nil || complete || len(found) != 1 {
		t.Errorf("bounded to one queue: %d, %v, %v", len(found), complete, err)
	}
}

// A search through a large Redis ends at its bound and says so.
func TestOthersIsBounded(t *testing.T) {
	t.Parallel()

	k := newKit(t, "--enable-debug-command", "yes")
	k.must(k.r.Do(t.Context(), "DEBUG", "POPULATE", "20000", "some").Err())

	_, complete, err := k.queue("pose").Others(t.Context(), SightBounds{Keys: 2000})
	if err != nil || complete {
		t.Errorf("complete %v, %v", complete, err)
	}
}

func TestOldest(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	start := time.Now().Truncate(time.Millisecond)
	ago := func(d time.Duration) time.Time { return start.Add(-d) }

	expect := func(wantID string, want time.Time) {
		t.Helper()

		id, since, err := q.Oldest(t.Context())
		if err != nil || id != wantID || !since.Equal(want) {
			t.Fatalf("%s since %v (%v), want %s since %v", id, since, err, wantID, want)
		}
	}

	expect("", time.Time{})
	k.add(q, "a", nil, JobOptions{JobID: "level1", Priority: 1, Timestamp: ago(time.Minute)})
	expect("level1", ago(time.Minute))
	// A low priority waits longest, though others are served first.
	k.add(q, "a", nil, JobOptions{JobID: "level3", Priority: 3, Timestamp: ago(9 * time.Minute)})
	k.add(q, "a", nil, JobOptions{JobID: "level4", Priority: 4, Timestamp: ago(2 * time.Minute)})
	expect("level3", ago(9*time.Minute))
	k.add(q, "a", nil, JobOptions{JobID: "plain", Timestamp: ago(10 * time.Minute)})
	expect("plain", ago(10*time.Minute))
	// Behind one that was put in front.
	k.add(q, "a", nil, JobOptions{JobID: "front", LIFO: true, Timestamp: ago(time.Second)})
	expect("plain", ago(10*time.Minute))
	// Its age does not count from before it was due, nor from before its last attempt.
	k.must(k.r.HSet(t.Context(), q.keys.job("plain"), "opts", `{"delay":180000}`).Err())
	expect("level3", ago(9*time.Minute))
	k.must(k.r.HSet(t.Context(), q.keys.job("level3"), "processedOn", ago(8*time.Minute).UnixMilli()).Err())
	expect("level3", ago(8*time.Minute))
	// What major 5 has moved away waits as well. A marker of old majors is no job.
	k.add(q, "a", nil, JobOptions{JobID: "moved", Timestamp: ago(time.Hour)})
	k.must(k.r.Rename(t.Context(), q.keys.of(keyWait), q.keys.of(keyPaused)).Err())
	k.must(k.r.RPush(t.Context(), q.keys.of(keyPaused), "0:0").Err())
	expect("moved", ago(time.Hour))
}

func TestServers(t *testing.T) {
	t.Parallel()

	k := newKit(t, "--maxmemory-policy", "volatile-lru", "--maxmemory", "100mb")
	q := k.queue("q")

	one := func() Server {
		t.Helper()

		all, err := q.Servers(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}

		return all[0]
	}

	s := one()
	if s.Policy != "volatile-lru" || s.MaxMemory != 100<<20 || s.UsedMemory == 0 || s.Product != "redis" || s.Mode != "standalone" || s.ReadOnly {
		t.Errorf("%+v", s)
	}

	if s.Version == "" || len(s.Denied) > 0 || s.ClockAhead.Abs() > s.ClockError+100*time.Millisecond || s.ClockError == 0 {
		t.Errorf("%+v", s)
	}

	// A managed service: no CONFIG; then hardly any rights.
	k.must(k.r.Do(t.Context(), "ACL", "SETUSER", "few", "on", ">pw", "~*", "+@all", "-config").Err())
	k.must(k.r.Do(t.Context(), "ACL", "SETUSER", "fewer", "on", ">pw", "~*", "+ping", "+hello", "+time").Err())

	for user, want := range map[string]Server{"few": {Policy: "volatile-lru"}, "fewer": {Denied: []string{"INFO", "CONFIG"}}} {
		var err error
		q, err = NewQueue(Options{RedisURL: "redis://" + user + ":pw@" + k.srv.Addr, Name: "q"})
		k.must(err)
		t.Cleanup(func() { _ = q.Close() })

		if s := one(); s.Policy != want.Policy || !cmp.Equal(s.Denied, want.Denied) {
			t.Errorf("%s: %+v", user, s)
		}
	}

	k.srv.Kill()

	if _, err := q.Servers(t.Context()); err == nil {
		t.Error("a dead server answers")
	}
}

func TestServersOfAClusterAndReplica(t *testing.T) {
	t.Parallel()

	master := redistest.Start(t)
	replica := redistest.Start(t, "--replicaof", "127.0.0.1", strings.TrimPrefix(master.URL, "redis://127.0.0.1:"))

	q, err := NewQueue(Options{RedisURL: replica.URL, Name: "q"})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()

	wait.For(t, testTimeout, func() bool {
		all, err := q.Servers(t.Context())

		return err == nil && len(all) == 1 && all[0].ReadOnly
	})

	srv := redistest.Start(t, "--cluster-enabled", "yes")
	r := srv.Client()

	if err := r.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}

	wait.For(t, testTimeout, func() bool { return strings.Contains(r.ClusterInfo(t.Context()).Val(), "cluster_state:ok") })

	c, err := NewQueue(Options{RedisURL: srv.URL + "," + srv.Addr, Prefix: "{b}", Name: "q"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	if err := r.HSet(t.Context(), "{other}:q:meta", "version", "bullmq:6.7.0").Err(); err != nil {
		t.Fatal(err)
	}

	all, err := c.Servers(t.Context())
	if err != nil || len(all) != 1 || all[0].Mode != "cluster" {
		t.Errorf("%+v, %v", all, err)
	}

	found, complete, err := c.Others(t.Context(), SightBounds{})
	if err != nil || !complete || len(found) != 1 || found[0].Prefix != "{other}" {
		t.Errorf("%+v, %v, %v", found, complete, err)
	}
}
