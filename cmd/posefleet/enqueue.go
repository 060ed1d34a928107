package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker"
)

// enqueueCmd is "posefleet enqueue ID…".
type enqueueCmd struct {
	IDs      []string      `arg:"" name:"id" help:"Analysis ids."`
	Attempts int           `default:"3" help:"How often each job is tried."`
	Backoff  time.Duration `default:"5s" help:"Pause before the second attempt; it doubles from there."`
	kong.Plugins
	flags *variables
}

func newEnqueueCmd() enqueueCmd {
	list := slices.DeleteFunc(worker.Variables(), func(v worker.Variable) bool {
		return !slices.Contains([]string{"redis-url", "prefix", "queue"}, v.Flag())
	})
	v := newVariables(list)
	return enqueueCmd{Plugins: v.plugin(), flags: v}
}

// Run adds one job for each id. All ids are checked before the first is added.
func (c *enqueueCmd) Run(h *host) error {
	for _, id := range c.IDs {
		if err := protocol.ValidateID(id); err != nil {
			return &usageError{err: fmt.Errorf("id %q: %w", id, err)}
		}
	}
	environ := c.flags.over(h.environ)
	get := func(i int) string {
		if v := environ[c.flags.list[i].Name]; v != "" {
			return v
		}
		return c.flags.list[i].Default
	}
	if _, err := queue.ParseRedisURL(get(0)); err != nil {
		return c.flags.explain(fmt.Errorf("%s is not usable: %w", c.flags.list[0].Name, err))
	}
	q, err := queue.NewQueue(queue.Options{RedisURL: get(0), Prefix: get(1), Name: get(2)})
	if err != nil {
		return c.flags.explain(fmt.Errorf("%s or %s is not usable: %w", c.flags.list[1].Name, c.flags.list[2].Name, err))
	}
	var errs []error
	for _, id := range c.IDs {
		errs = append(errs, c.add(h, q, id))
	}
	return errors.Join(append(errs, q.Close())...)
}

func (c *enqueueCmd) add(h *host, q *queue.Queue, id string) error {
	added, err := q.Add(h.ctx, protocol.JobName, protocol.NewJobData(id), queue.JobOptions{
		JobID: id, Attempts: c.Attempts, Backoff: &queue.Backoff{Type: "exponential", Delay: c.Backoff},
	})
	if err != nil {
		return fmt.Errorf("enqueue %s: %w", id, err)
	}
	word := "added"
	if added.Duplicate {
		word = "is there already"
	}
	_, err = fmt.Fprintln(h.stdout, added.ID, word)
	return err
}
