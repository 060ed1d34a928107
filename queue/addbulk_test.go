package queue

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Jobs of several round trips stand in the list in the order in which they were given, on a server that does not know the script, too;
// what is there already, or does not wait in the list, leaves its neighbours alone.
func TestAddBulkKeepsOrder(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	k.add(q, "n", nil, JobOptions{JobID: "old"})
	k.must(k.r.ScriptFlush(t.Context()).Err())

	const n = 2*bulkJobs*bulkCalls + 77

	jobs := make([]NewJob, n)
	want := []string{"old"}

	for i := range jobs {
		switch {
		case i%97 == 5:
			jobs[i] = NewJob{Name: "n", Opts: JobOptions{JobID: "old"}}
		case i%31 == 7:
			jobs[i] = NewJob{Name: "n", Opts: JobOptions{Priority: 1}}
		case i%13 == 3:
			jobs[i] = NewJob{Name: "n", Opts: JobOptions{JobID: fmt.Sprint("own", i, "x")}}
			want = append(want, jobs[i].Opts.JobID)
		default:
			jobs[i] = NewJob{Name: "n", Data: i}
			want = append(want, strconv.Itoa(i+2)) // each job, also one that is not added, has counted; old was the first
		}
	}

	added, err := q.AddBulk(t.Context(), jobs)
	k.must(err)

	for i, a := range added {
		if a.Duplicate != (jobs[i].Opts.JobID == "old") {
			t.Fatalf("job %d: %+v", i, a)
		}
	}

	slices.Reverse(want)

	if got := k.r.LRange(t.Context(), "bull:q:wait", 0, -1).Val(); !slices.Equal(got, want) {
		t.Errorf("the list holds %d ids of %d, or in another order", len(got), len(want))
	}
}

// Jobs that can't be put in the list say so, each by itself, and leave nothing.
func TestAddBulkIntoSomethingElse(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	k.must(k.r.Set(t.Context(), "bull:q:wait", "no list", 0).Err())

	added, err := q.AddBulk(t.Context(), []NewJob{{Name: "n"}, {Name: "n", Opts: JobOptions{Priority: 1}}, {Name: "n"}})
	if err == nil || strings.Count(err.Error(), "WRONGTYPE") != 2 {
		t.Errorf("AddBulk = %v", err)
	}

	if added[0].ID != "" || added[1].ID != "2" || added[2].ID != "" {
		t.Errorf("added %+v", added)
	}

	if n := k.r.Exists(t.Context(), "bull:q:1", "bull:q:3").Val(); n != 0 {
		t.Errorf("%d of them have left a hash", n)
	}

	if got := k.events("bull:q:events"); len(got) != 2 || !strings.Contains(got[0], "jobId=2") {
		t.Errorf("events %v", got)
	}
}

// A user who may not put jobs in the list leaves none behind either, and none is the duplicate of one that is not there.
func TestAddBulkWithoutTheRight(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	k.must(k.r.Do(t.Context(), "ACL", "SETUSER", "u", "on", ">SECRET", "~*", "&*", "+@all", "-lpush").Err())

	added, err := k.open(k.as("u")).AddBulk(t.Context(), []NewJob{
		{Name: "n"}, {Name: "n", Opts: JobOptions{JobID: "mine"}}, {Name: "n", Opts: JobOptions{JobID: "mine"}},
	})
	if err == nil || strings.Count(err.Error(), "can't run this command") != 3 || !slices.Equal(added, make([]Added, 3)) {
		t.Errorf("AddBulk = %+v, %v", added, err)
	}

	if n := k.r.Exists(t.Context(), "bull:q:1", "bull:q:mine").Val(); n != 0 {
		t.Errorf("%d jobs have left a hash", n)
	}
}

// The counter of ids is a number for Lua, which writes large ones with an exponent: many jobs would have the same id.
func TestLargeIDs(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	k.must(k.r.Set(t.Context(), "bull:q:id", "123456789012345", 0).Err())

	ids := []string{k.add(q, "n", nil, JobOptions{}), k.add(q, "n", nil, JobOptions{Priority: 1})}
	added, err := q.AddBulk(t.Context(), []NewJob{{Name: "n"}, {Name: "n", Opts: JobOptions{LIFO: true}}})
	k.must(err)

	for _, a := range added {
		ids = append(ids, a.ID)
	}

	if want := []string{"123456789012346", "123456789012347", "123456789012348", "123456789012349"}; !slices.Equal(ids, want) {
		t.Errorf("ids %v", ids)
	}
}
