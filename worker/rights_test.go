package worker_test

import (
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/queue"
)

// leastRights makes the worker of docs/queue-redis.md a user of the bench's Redis and returns how it gets there.
func (b *bench) leastRights(client *redis.Client) string {
	b.t.Helper()
	text, err := os.ReadFile("../docs/queue-redis.md")
	if err != nil {
		b.t.Fatal(err)
	}
	_, command, found := strings.Cut(strings.ReplaceAll(string(text), "\\\n", " "), "\nACL SETUSER worker ")
	command, _, _ = strings.Cut(command, "\n")
	args := []any{"ACL", "SETUSER", "worker"}
	for word := range strings.FieldsSeq(command) {
		args = append(args, word)
	}
	if err := client.Do(b.t.Context(), args...).Err(); err != nil || !found {
		b.t.Fatal(found, err)
	}
	return strings.Replace(b.redis.URL, "://", "://worker:SECRET@", 1)
}

// refused is how often Redis has refused a command.
func refused(t *testing.T, client *redis.Client, command string) (n int64) {
	t.Helper()
	entries, err := client.Do(t.Context(), "ACL", "LOG", "100").Slice()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		fields := map[any]any{}
		pairs, _ := entry.([]any)
		for i := 0; i+1 < len(pairs); i += 2 {
			fields[pairs[i]] = pairs[i+1]
		}
		if count, ok := fields["count"].(int64); ok && fields["object"] == command {
			n += count
		}
	}
	return n
}

// TestLeastRights: with no more rights than the queue needs a worker works, without the hints of the control plane and without a look at
// Redis' settings. It asks for these once, and does not complain of those with each job.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	client := b.redis.Client()
	b.start("REDIS_URL", b.leastRights(client))
	follows := func() bool {
		list, err := client.ClientList(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(list, ":qe ")
	}
	for _, id := range []string{"an_1", "an_2"} {
		wait.For(t, long, func() bool { return !follows() }, "hints are followed though nothing runs")
		before := refused(t, client, "xrange")
		b.plane.Add(id, "ok")
		b.add(id, 1)
		b.awaitState(id, queue.StateCompleted)
		// They are asked for a while longer. The second refusal comes after the first has been dealt with.
		wait.For(t, long, func() bool { return refused(t, client, "xrange") >= before+2 }, "hints are not asked for")
	}
	if n := strings.Count(b.log.String(), "events not read"); n != 1 {
		t.Errorf("complained %d times:\n%s", n, b.log.String())
	}
	if n := refused(t, client, "ping"); n != 1 {
		t.Errorf("asked %d times for Redis' settings", n)
	}
}
