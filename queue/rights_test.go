package queue

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rightsDoc tells users which rights a user of Redis needs. The tests give those rights, word for word.
const rightsDoc = "../docs/queue-redis.md"

// documentedUsers are the ACL SETUSER commands of the document by the user's name, as arguments.
func documentedUsers(t *testing.T) map[string][]any {
	t.Helper()

	text, err := os.ReadFile(rightsDoc)
	if err != nil {
		t.Fatal(err)
	}

	users := map[string][]any{}

	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "ACL" || words[1] != "SETUSER" {
			continue
		}

		var args []any
		for _, w := range words {
			args = append(args, w)
		}

		users[words[2]] = args
	}

	return users
}

// allowed are the commands that an ACL SETUSER gives, in order.
func allowed(args []any) (commands []string) {
	for _, a := range args {
		if name, ok := strings.CutPrefix(fmt.Sprint(a), "+"); ok {
			commands = append(commands, name)
		}
	}

	slices.Sort(commands)

	return commands
}

// as is how the user reaches the queue q.
func (k *kit) as(user string) Options {
	o := k.options("q")
	o.RedisURL = strings.Replace(k.url, "://", "://"+user+":SECRET@", 1)

	return o
}

// used are the commands that the tour runs.
func used(t *testing.T, tour tour) (commands []string) {
	t.Helper()

	k := newKit(t)
	tour.seed(k)
	k.must(k.r.Do(t.Context(), "ACL", "SETUSER", "free", "on", ">SECRET", "~*", "&*", "+@all").Err())
	k.must(k.r.Do(t.Context(), "ACL", "SETUSER", "default", "nocommands", "+@all").Err())
	k.must(k.r.ScriptFlush(t.Context()).Err())
	k.must(k.r.ConfigResetStat(t.Context()).Err())
	tour.run(k, k.as("free"))

	for name := range maps.Keys(k.calls()) {
		// Everybody may say who he is; the rest is the test's own.
		if !slices.Contains([]string{"hello", "auth", "config|resetstat"}, name) {
			commands = append(commands, name)
		}
	}

	slices.Sort(commands)
	t.Logf("not run, though the scripts name them: %v", slices.DeleteFunc(named(k), func(name string) bool {
		return slices.Contains(commands, name)
	}))

	return commands
}

var commandWord = regexp.MustCompile(`"([A-Z]{3,})"`)

// named are the commands that the text of the scripts names that have run.
func named(k *kit) (commands []string) {
	k.t.Helper()

	s, err := loadScripts()
	k.must(err)

	known, err := k.r.Command(k.t.Context()).Result()
	k.must(err)

	for _, script := range []*script{
		s.add, s.addAny, s.take, s.finish, s.retry, s.delay, s.putback, s.extend, s.reclaim, s.unlock, s.rewake, s.stalled, s.progress, s.log, s.pause,
		s.resume, s.state, s.retryFinished, s.remove, s.drain, s.clean, s.iterate, s.flow, s.waitChildren, s.leaveParent, s.upsert, s.unplan,
		s.obliterate, s.requeue, s.promote, s.redelay, s.reprioritize, s.edit, s.orphans, s.readEvents,
	} {
		if !k.r.ScriptExists(k.t.Context(), script.sha).Val()[0] {
			continue
		}

		for _, m := range commandWord.FindAllStringSubmatch(script.body, -1) {
			if name := strings.ToLower(m[1]); known[name] != nil {
				commands = append(commands, name)
			}
		}
	}

	slices.Sort(commands)

	return slices.Compact(commands)
}

// The documented rights of each role are enough for all that the role does, and none of them is superfluous.
func TestLeastRights(t *testing.T) {
	t.Parallel()

	users := documentedUsers(t)

	for _, tour := range tours() {
		t.Run(tour.role, func(t *testing.T) {
			t.Parallel()

			user, ok := users[tour.role]
			if !ok {
				t.Fatalf("%s does not tell of the %s", rightsDoc, tour.role)
			}

			if d := cmp.Diff(used(t, tour), allowed(user)); d != "" {
				t.Errorf("the %s needs (-) other commands than %s gives (+):\n%s", tour.role, rightsDoc, d)
			}

			k := newKit(t)
			tour.seed(k)
			k.must(k.r.Do(t.Context(), user...).Err())
			tour.run(k, k.as(tour.role))

			denied, err := k.r.Do(t.Context(), "ACL", "LOG").Slice()
			if err != nil || len(denied) > 0 {
				t.Errorf("Redis has refused the %s: %v, %v", tour.role, denied, err)
			}
		})
	}
}

// A worker's rights on a Cluster.
func TestLeastRightsOnACluster(t *testing.T) {
	t.Parallel()

	k := newCluster(t)
	user := append(documentedUsers(t)["worker"], "+cluster|slots", "+command")
	k.must(k.r.Do(t.Context(), user...).Err())

	q := k.queue("{q}")
	id := k.add(q, "n", nil, JobOptions{})

	o := k.workerOptions("{q}")
	o.RedisURL = k.as("worker").RedisURL
	_, stop := k.run(o, func(context.Context, *Job) (any, error) { return 1, nil })
	k.awaitState(q, id, StateCompleted)
	stop()

	if denied, err := k.r.Do(t.Context(), "ACL", "LOG").Slice(); err != nil || len(denied) > 0 {
		t.Errorf("Redis has refused: %v, %v", denied, err)
	}
}
