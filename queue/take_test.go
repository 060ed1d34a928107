package queue

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseJobs(t *testing.T) {
	t.Parallel()

	long := strings.Repeat("x", 300)

	for _, test := range []struct {
		name, text string
		want       []takenJob
	}{
		{name: "none"},
		{"empty array", "\x90", []takenJob{}},
		{"as added", "\x99\xc3\xa1n\xa2[]\xa10\xa10\xc2\xa15\xa11\xa2{}", []takenJob{{id: "1", added: [addedFields]string{"n", "{}", "[]", "5", "0", "0"}}}},
		{
			"added together, and later", "\xdc\x00\x0f\xc3\xa1n\xa1o\xa10\xa10\xc2\xa15\xa11\xa1x\xa12\xa1y\xc2\xa16\xa13\xa1z",
			[]takenJob{
				{id: "1", added: [addedFields]string{"n", "x", "o", "5", "0", "0"}},
				{id: "2", added: [addedFields]string{"n", "y", "o", "5", "0", "0"}},
				{id: "3", added: [addedFields]string{"n", "z", "o", "6", "0", "0"}},
			},
		},
		{"fields", "\x92\xa11\x92\xa1a\xa1b", []takenJob{{id: "1", fields: []string{"a", "b"}}}},
		{"no fields", "\x92\xa11\x90", []takenJob{{id: "1", fields: []string{}}}},
		{"long", "\xdc\x00\x02\xa11\xdd\x00\x00\x00\x02\xd9\x01a\xda\x01\x2c" + long, []takenJob{{id: "1", fields: []string{"a", long}}}},
	} {
		got, err := parseJobs(test.text, "")
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(takenJob{})); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", test.name, err, diff)
		}
	}
}

func FuzzParseJobs(f *testing.F) {
	f.Add("\x99\xc3\xa1n\xa2[]\xa10\xa10\xc2\xa15\xa11\xa2{}")
	f.Add("\x92\xa11\x92\xa1a\xa1b")
	f.Add("\xdd\xff\xff\xff\xff")
	f.Add("\x92\xdb\x7f\xff\xff\xff")
	f.Fuzz(func(t *testing.T, text string) {
		jobs, err := parseJobs(text, "1")
		if err != nil && !errors.Is(err, errBadReply) {
			t.Error(err)
		}

		if len(jobs) > len(text) {
			t.Errorf("%d jobs in %d bytes", len(jobs), len(text))
		}
	})
}

// An id that is in the list several times is started as often, by one call as by several.
func TestTakeSameIDAgain(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q, w := k.queue("q"), k.worker("q")
	k.plainJobs(q, 2)
	k.must(k.r.RPush(t.Context(), "bull:q:wait", "2", "2").Err())

	got, err := newFetcher(w).take(t.Context(), "t", 4)
	k.must(err)

	starts := []string{}

	for i := range got.jobs {
		j, err := got.jobs[i].decode("")
		k.must(err)

		starts = append(starts, j.ID+" "+strconv.Itoa(j.AttemptsStarted))
	}

	if want := []string{"2 1", "2 2", "1 1", "2 3"}; !slices.Equal(starts, want) {
		t.Errorf("starts %v, want %v", starts, want)
	}

	if ats := k.r.HGet(t.Context(), "bull:q:2", "ats").Val(); ats != "3" {
		t.Errorf("ats %s", ats)
	}
}

// A job that becomes a child while it runs tells its parent, although it was none when it was taken.
func TestAdoptedWhileItRuns(t *testing.T) {
	t.Parallel()

	for _, name := range []string{"", "w"} {
		k := newKit(t)
		q, w := k.queue("q"), k.worker("q", func(o *WorkerOptions) { o.WorkerName = name })
		k.add(q, "child", nil, JobOptions{JobID: "child"})

		h := k.take(w, "t")
		if !h.asAdded {
			t.Error("not as it was added")
		}

		k.must(k.r.HSet(t.Context(), "bull:q:p1", "name", "p").Err())
		k.must(k.r.ZAdd(t.Context(), "bull:q:waiting-children", z(1, "p1")).Err())
		k.must(k.r.SAdd(t.Context(), "bull:q:p1:dependencies", "bull:q:child").Err())
		k.must(k.r.HSet(t.Context(), "bull:q:child", "parentKey", "bull:q:p1", "parent", `{"id":"p1","queueKey":"bull:q"}`).Err())
		k.must(w.finish(h, keyCompleted, []byte("7"), nil, nil))

		if v := k.r.HGet(t.Context(), "bull:q:p1:processed", "bull:q:child").Val(); v != "7" {
			t.Errorf("worker %q: the parent knows %q", name, v)
		}
	}
}
