package queue

import (
	"testing"
	"time"
)

// Both libraries see the same owner of a deduplication, and an end by either lets the other add again.
func TestDeduplicationOwner(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, k *kit, n *nodeSide) {
		q, ctx := k.queue("q"), t.Context()
		o := JobOptions{Delay: time.Hour, Deduplication: &Deduplication{ID: "a b:c"}}

		owner := func(want string) {
			t.Helper()

			ours, err := q.DeduplicationOwner(ctx, "a b:c")
			k.must(err)

			var nodes string

			n.ask(&nodes, map[string]any{"op": "dedupOwner", "id": "a b:c"})

			if ours != want || nodes != want {
				t.Errorf("owner is %q, for node %q, want %q", ours, nodes, want)
			}
		}

		owner("")

		first := k.add(q, "n", nil, o)
		owner(first)

		if ended, err := q.EndDeduplication(ctx, "a b:c"); err != nil || !ended {
			t.Errorf("%v, %v", ended, err)
		}

		owner("")

		if ended, err := q.EndDeduplication(ctx, "a b:c"); err != nil || ended {
			t.Errorf("ended twice: %v, %v", ended, err)
		}

		second := n.add("n", map[string]any{}, map[string]any{"delay": 60000, "deduplication": map[string]any{"id": "a b:c"}})
		owner(second)
		n.ask(nil, map[string]any{"op": "endDedup", "id": "a b:c"})

		if third := k.add(q, "n", nil, o); third == first || third == second {
			t.Errorf("refused by %s", third)
		}
	})
}
