package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
)

const (
	// otherPeeks is how many other queues are looked into, otherJobs how many jobs of each.
	otherPeeks, otherJobs = 10, 3
	// searchTime bounds the walk through the keys of Redis.
	searchTime = 2 * time.Second
)

// examineQueue looks at our queue and at those beside it.
func (r *redisArea) examineQueue(ctx context.Context) []Finding {
	ours, err := r.queue.Sight(ctx)
	if err != nil {
		return []Finding{failure("queue", "see whether other programs use the same keys, and whether the user may read them",
			"%s can't be read: %s", r.name(), reason(err))}
	}

	workers, err := r.queue.Workers(ctx)
	connected := len(workers)

	if err != nil { // not allowed to ask
		connected = -1
	}

	others, complete, err := r.queue.Others(ctx, queue.SightBounds{Time: searchTime})
	if err != nil {
		return []Finding{state(ours, connected), majors(ours), warning("other queues", "allow SCAN (+scan)", "not looked for: %s", reason(err))}
	}

	return []Finding{state(ours, connected), majors(ours), r.others(ctx, ours, others, complete)}
}

func (r *redisArea) name() string { return r.options.Prefix + ":" + r.options.Name }

func nameOf(s queue.Sighting) string { return s.Prefix + ":" + s.Name }

// state judges our queue. connected is the number of workers, -1 if not known.
func state(s queue.Sighting, connected int) Finding {
	const (
		name   = "queue"
		resume = "posefleet queue resume"
	)

	held := fmt.Sprintf("%s holds %s", nameOf(s), contents(s.Counts))
	atHand := "workers not known"

	if connected >= 0 {
		atHand = number(int64(connected), "worker", "workers")
	}

	switch {
	case !s.Meta && s.Jobs() > 0:
		return failure(name, "let producers use BullMQ 5 or 6", "%s, made by Bull or another library whose jobs BullMQ does not see", held)
	case s.Counts.Paused:
		return warning(name, resume, "%s and is paused: nobody takes jobs", held)
	case s.Moved > 0:
		return failure(name, resume, "%s, but %s lie where a BullMQ 5 client moved them by a pause, and nobody takes them there",
			held, number(s.Moved, "job", "jobs"))
	case connected == 0 && s.Pending() > 0:
		return warning(name, "start workers, or look at /readyz of those that should be there", "%s and no worker is connected", held)
	}

	return good(name, "%s, %s connected", held, atHand)
}

func contents(c queue.Counts) string {
	var parts []string

	for _, p := range []struct {
		n    int64
		word string
	}{
		{c.Waiting + c.Prioritized, "waiting"},
		{c.Delayed, "delayed"},
		{c.Active, "active"},
		{c.WaitingChildren, "waiting for children"},
		{c.Completed, "completed"},
		{c.Failed, "failed"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}

	if len(parts) == 0 {
		return "no jobs"
	}

	return strings.Join(parts, ", ")
}

// majors tells which major of Node's library opened the queue last.
func majors(s queue.Sighting) Finding {
	const name = "bullmq"

	library, version, _ := strings.Cut(s.Version, ":")
	major, err := strconv.Atoi(strings.Split(version, ".")[0])

	switch {
	case s.Version == "":
		return good(name, "no Node library has opened the queue yet")
	case library != "bullmq" || err != nil:
		return good(name, "opened last by %s", s.Version)
	case major < 5:
		return failure(name, "upgrade Node's bullmq to 5 or 6 everywhere", "opened last by BullMQ %s, whose keys are others", version)
	case major == 5:
		return warning(name, "pause and resume only by posefleet queue or BullMQ 6, or upgrade Node's bullmq to 6",
			"opened last by BullMQ %s: a resume by BullMQ 5 loses jobs that others added during the pause", version)
	case major > 6:
		return warning(name, "try it beside a queue that does not matter", "opened last by BullMQ %s, which is newer than what posefleet knows", version)
	}

	return good(name, "opened last by BullMQ %s", version)
}

// rival is another queue with jobs to do.
type rival struct {
	queue.Sighting
	// claims: its jobs are claim checks of analyses. alike: its name or its prefix is nearly ours.
	claims, alike bool
	// workers are connected to it; -1: not known.
	workers int
}

// others looks for the silent outage: jobs go to another queue than the workers read.
func (r *redisArea) others(ctx context.Context, ours queue.Sighting, all []queue.Sighting, complete bool) Finding {
	const name = "other queues"

	rivals := r.rivals(ctx, ours, all)
	mend := fmt.Sprintf("let producers and workers agree on POSEFLEET_PREFIX and POSEFLEET_QUEUE (here %s and %s)", ours.Prefix, ours.Name)

	cut := ""
	if !complete {
		cut = " (the search was cut short, Redis has many keys)"
	}

	for _, o := range rivals {
		told := fmt.Sprintf("%s holds %s", nameOf(o.Sighting), contents(o.Counts))

		switch {
		case o.claims && o.workers <= 0 && ours.Pending() == 0:
			return failure(name, mend, "%s, which are analyses, and no worker is connected there, while %s has none%s", told, nameOf(ours), cut)
		case o.claims && o.workers == 0:
			return warning(name, mend, "%s, which are analyses, and no worker is connected there%s", told, cut)
		case o.alike && o.workers <= 0 && ours.Pending() == 0:
			return failure(name, mend, "%s and no worker is connected there, while %s has none%s", told, nameOf(ours), cut)
		case ours.Pending() == 0 && o.workers <= 0:
			return warning(name, mend+", if those jobs are meant for it", "%s and no worker is connected there, while %s has none%s", told, nameOf(ours), cut)
		case ours.Pending() == 0:
			return warning(name, mend+", if those jobs are meant for it", "%s, while %s has none%s", told, nameOf(ours), cut)
		}
	}

	return good(name, "%s beside %s, %d with jobs to do%s", number(int64(len(all)), "queue", "queues"), nameOf(ours), len(rivals), cut)
}

// rivals are the other queues with jobs to do, the most suspicious first.
func (r *redisArea) rivals(ctx context.Context, ours queue.Sighting, all []queue.Sighting) []rival {
	var found []rival

	for _, s := range all {
		if s.Pending() > 0 {
			found = append(found, rival{Sighting: s, alike: alike(ours, s), workers: -1})
		}
	}

	slices.SortStableFunc(found, func(a, b rival) int { return weight(b) - weight(a) })

	for i := range found[:min(len(found), otherPeeks)] {
		r.peek(ctx, &found[i])
	}

	slices.SortStableFunc(found, func(a, b rival) int { return weight(b) - weight(a) })

	return found
}

func weight(r rival) int {
	w := 0
	if r.claims {
		w += 4
	}

	if r.alike {
		w += 2
	}

	if r.workers == 0 {
		w++
	}

	return w
}

// alike: the same queue under another prefix, or under the same prefix with another spelling.
func alike(a, b queue.Sighting) bool {
	plain := func(s string) string { return strings.Trim(strings.ToLower(s), "{}-_ ") }

	return plain(a.Name) == plain(b.Name) || a.Prefix == b.Prefix && strings.TrimSuffix(plain(a.Name), "s") == strings.TrimSuffix(plain(b.Name), "s")
}

// peek finds out what kind of jobs wait there and whether anybody takes them. What can't be read counts as unknown.
func (r *redisArea) peek(ctx context.Context, o *rival) {
	q, err := queue.NewQueue(queue.Options{RedisURL: r.options.RedisURL, Prefix: o.Prefix, Name: o.Name})
	if err != nil {
		return
	}
	defer q.Close()

	if workers, err := q.Workers(ctx); err == nil {
		o.workers = len(workers)
	}

	for _, state := range []queue.State{queue.StateWaiting, queue.StatePrioritized, queue.StateDelayed} {
		ids, err := q.IDs(ctx, state, 0, otherJobs)
		if err != nil {
			return
		}

		for _, id := range ids {
			j, err := q.Job(ctx, id)
			if err != nil || j.Name != protocol.JobName {
				continue
			}

			if _, err := protocol.ParseJobData(j.Data); err == nil {
				o.claims = true

				return
			}
		}
	}
}
