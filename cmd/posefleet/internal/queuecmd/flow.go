package queuecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/posefleet/posefleet/queue"
)

// ErrBadFlow says that a text is no flow.
var ErrBadFlow = errors.New("not a flow")

// flowNode is one job of Flow's document.
type flowNode struct {
	ID       string      `json:"id"`
	Queue    string      `json:"queue"`
	Name     string      `json:"name"`
	State    queue.State `json:"state"`
	Reason   string      `json:"failedReason,omitempty"`
	Children []flowNode  `json:"children,omitempty"`
}

// Flow shows the tree of jobs below one, so many levels of it and so many children of each job.
func (d *Desk) Flow(ctx context.Context, id string, depth, children int) error {
	f, err := d.flows()
	if err != nil {
		return err
	}
	defer f.Close()

	tree, err := f.Get(ctx, queue.FlowQuery{Queue: d.Options.Name, ID: id, Depth: depth, MaxChildren: children})
	if err != nil {
		return explain(id, "", err)
	}

	top, err := d.flowNode(ctx, tree)
	if err != nil {
		return err
	}

	if d.JSON {
		return d.document(top)
	}

	return d.showFlow(&top, 0)
}

func (d *Desk) flows() (*queue.Flows, error) {
	return queue.NewFlows(queue.FlowOptions{RedisURL: d.Options.RedisURL, Prefix: d.Options.Prefix})
}

func (d *Desk) flowNode(ctx context.Context, tree *queue.FlowTree) (flowNode, error) {
	n := flowNode{ID: tree.Job.ID, Queue: tree.Queue, Name: tree.Job.Name, Reason: tree.Job.FailedReason}

	state, err := d.stateIn(ctx, tree.Queue, tree.Job.ID)
	if err != nil {
		return n, err
	}

	n.State = state

	for _, child := range tree.Children {
		below, err := d.flowNode(ctx, child)
		if err != nil {
			return n, err
		}

		n.Children = append(n.Children, below)
	}

	return n, nil
}

// stateIn is the state of a job of any queue; each is asked on a connection of its own, which is enough for a look.
func (d *Desk) stateIn(ctx context.Context, name, id string) (queue.State, error) {
	if name == d.Options.Name {
		return d.Queue.State(ctx, id)
	}

	o := d.Options
	o.Name = name

	q, err := queue.NewQueue(o)
	if err != nil {
		return queue.StateUnknown, err
	}
	defer q.Close()

	return q.State(ctx, id)
}

func (d *Desk) showFlow(n *flowNode, depth int) error {
	line := fmt.Sprintf("%s%s  %s:%s  %s", strings.Repeat("  ", depth), n.State, n.Queue, n.ID, n.Name)
	if n.Reason != "" {
		line += "  " + short(n.Reason, fieldWidth)
	}

	if err := d.say("%s", oneLine(line)); err != nil {
		return err
	}

	for i := range n.Children {
		if err := d.showFlow(&n.Children[i], depth+1); err != nil {
			return err
		}
	}

	return nil
}

// AddFlow adds the tree of jobs that a JSON text tells of, in the form of BullMQ's FlowProducer, or several in an array: all or none.
func (d *Desk) AddFlow(ctx context.Context, text io.Reader) error {
	roots, err := readFlows(text, d.Options.Name)
	if err != nil {
		return err
	}

	f, err := d.flows()
	if err != nil {
		return err
	}
	defer f.Close()

	added, err := f.AddBulk(ctx, roots)

	switch {
	case errors.Is(err, queue.ErrBadOptions), errors.Is(err, queue.ErrBadName), errors.Is(err, queue.ErrBadJobID):
		return fmt.Errorf("%w: %w", ErrBadFlow, err)
	case err != nil:
		return err
	case d.JSON:
		return d.document(map[string]any{"added": addedNodes(added)})
	}

	for _, node := range added {
		if err := d.sayAdded(node, 0); err != nil {
			return err
		}
	}

	return nil
}

// addedNode is one job of AddFlow's document.
type addedNode struct {
	ID       string      `json:"id"`
	Queue    string      `json:"queue"`
	There    bool        `json:"wasThere,omitempty"`
	Children []addedNode `json:"children,omitempty"`
}

func addedNodes(nodes []queue.FlowNode) []addedNode {
	out := make([]addedNode, 0, len(nodes))
	for _, n := range nodes {
		out = append(out, addedNode{ID: n.ID, Queue: n.Queue, There: n.Duplicate || n.Deduplicated, Children: addedNodes(n.Children)})
	}

	return out
}

func (d *Desk) sayAdded(n queue.FlowNode, depth int) error {
	word := "added"
	if n.Duplicate || n.Deduplicated {
		word = "is there already"
	}

	if err := d.say("%s%s:%s %s", strings.Repeat("  ", depth), oneLine(n.Queue), oneLine(n.ID), word); err != nil {
		return err
	}

	for _, child := range n.Children {
		if err := d.sayAdded(child, depth+1); err != nil {
			return err
		}
	}

	return nil
}

// readFlows reads one tree, or an array of trees.
func readFlows(text io.Reader, name string) ([]queue.FlowJob, error) {
	var raw json.RawMessage

	dec := json.NewDecoder(text)
	if err := dec.Decode(&raw); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadFlow, err)
	}

	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the JSON text", ErrBadFlow)
	}

	trees := make([]flowText, 1)

	var to any = &trees[0]
	if raw[0] == '[' {
		to = &trees
	}

	if err := strictly(raw, to); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadFlow, err)
	}

	jobs := make([]queue.FlowJob, len(trees))
	for i := range trees {
		jobs[i] = trees[i].job(name)
	}

	return jobs, nil
}
