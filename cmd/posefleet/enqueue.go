package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/posefleet/posefleet/cmd/posefleet/internal/doctor"
	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/internal/operator"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker"
)

// enqueueCmd is "posefleet enqueue ID…". A job of an analysis that nobody knows fails at the first worker that takes it: where a control plane is
// configured it is asked first, and otherwise the output says that nobody was.
type enqueueCmd struct {
	IDs      []string      `arg:"" name:"id" help:"Analysis ids."`
	Attempts int           `default:"3" help:"How often each job is tried."`
	Backoff  time.Duration `default:"5s" help:"Pause before the second attempt; it doubles from there."`
	kong.Plugins
	flags *variables
}

func newEnqueueCmd() enqueueCmd {
	var list []worker.Variable
	for _, flag := range []string{"redis-url", "prefix", "queue", "control-url"} {
		i := slices.IndexFunc(worker.Variables(), func(v worker.Variable) bool { return v.Flag() == flag })
		list = append(list, worker.Variables()[i])
	}
	last := len(list) - 1
	list[last].Help = "base URL of the control plane, to ask whether it knows the analyses"
	for _, v := range control.Variables() {
		if v.Flag() == "api-token" || v.Flag() == "read-token" {
			v.Help = "token for that, unless it listens on a loopback address"
			list = append(list, v)
		}
	}
	v := newVariables(list)
	return enqueueCmd{Plugins: v.plugin(), flags: v}
}

// askTimeout bounds all questions to the control plane.
const askTimeout = 5 * time.Second

// Run adds one job for each id. All ids are checked before the first is added.
func (c *enqueueCmd) Run(h *host) (err error) {
	for _, id := range c.IDs {
		if err := protocol.ValidateID(id); err != nil {
			return &usageError{err: fmt.Errorf("id %q: %w", id, err)}
		}
	}
	if c.Attempts < 1 || c.Backoff < 0 {
		return &usageError{err: errors.New("--attempts must be at least 1 and --backoff must not be negative")}
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
	o := queue.Options{RedisURL: get(0), Prefix: get(1), Name: get(2)}
	q, err := queue.NewQueue(o)
	if err != nil {
		return c.flags.explain(fmt.Errorf("%s or %s is not usable: %w", c.flags.list[1].Name, c.flags.list[2].Name, err))
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	if err := c.ask(h, get(3), cmp.Or(get(4), get(5))); err != nil {
		return err
	}
	var errs []error
	for _, id := range c.IDs {
		if err := c.add(h, q, id); err != nil {
			if _, away := doctor.Unreachable(o, err); away { // the others would fail alike
				return errors.Join(append(errs, fmt.Errorf("enqueue %s: %w", id, c.flags.unreachable(o, err)))...)
			}
			errs = append(errs, fmt.Errorf("enqueue %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// ask refuses ids that the control plane does not know. One that can't tell keeps nobody from adding jobs: Redis is all that they need.
func (c *enqueueCmd) ask(h *host, controlURL, token string) error {
	if controlURL == "" {
		fmt.Fprintf(h.stderr, "posefleet: nobody was asked whether there are such analyses: %s is not set\n", c.flags.list[3].Name)
		return nil
	}
	ctx, cancel := context.WithTimeout(h.ctx, askTimeout)
	defer cancel()
	client := &operator.Client{Base: controlURL, Token: token, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	var unknown, early []string
	for _, id := range c.IDs {
		a, err := client.Get(ctx, id)
		answer, ok := errors.AsType[*operator.StatusError](err)
		switch {
		case ok && answer.Problem.Code == protocol.CodeUnknownAnalysis:
			unknown = append(unknown, id)
		case err != nil:
			fmt.Fprintf(h.stderr, "posefleet: the control plane did not tell whether there are such analyses: %s\n", oneLine(err))
			return nil
		case a.Status == "uploading":
			early = append(early, id)
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("enqueue: the control plane does not know %s; nothing was added", strings.Join(unknown, ", "))
	}
	if len(early) > 0 {
		return fmt.Errorf("enqueue: the clips of %s are still being uploaded: submit first, with dispatch none; nothing was added", strings.Join(early, ", "))
	}
	return nil
}

func (c *enqueueCmd) add(h *host, q *queue.Queue, id string) error {
	added, err := q.Add(h.ctx, protocol.JobName, protocol.NewJobData(id), queue.JobOptions{
		JobID: id, Attempts: c.Attempts, Backoff: &queue.Backoff{Type: "exponential", Delay: c.Backoff},
	})
	if err != nil {
		return err
	}
	word := "added"
	if added.Duplicate {
		word = "is there already" + c.ended(h, q, id)
	}
	_, err = fmt.Fprintln(h.stdout, added.ID, word)
	return err
}

// ended tells of a job that is there how it ended, if it did: nobody will take it. Who may add jobs may not be allowed to look at them.
func (*enqueueCmd) ended(h *host, q *queue.Queue, id string) string {
	state, err := q.State(h.ctx, id)
	if err != nil || state != queue.StateFailed && state != queue.StateCompleted {
		return ""
	}
	return fmt.Sprintf(", %s: posefleet queue retry %s lets it run again", state, id)
}
