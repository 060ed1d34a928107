package queue

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxFlowNodes bounds one call: its script holds Redis up for the time of that many adds.
const maxFlowNodes = 20_000

// FlowOptions say where flows are stored.
type FlowOptions struct {
	// RedisURL as in ParseRedisURL; required.
	RedisURL string
	// Prefix of all keys, default DefaultPrefix. For Redis Cluster it needs a hash tag, such as {bull}, since a job and its children,
	// often of different queues, are written in one step.
	Prefix string
	// TLS, Dialer and Telemetry as in Options. Optional.
	TLS       *tls.Config
	Dialer    Dialer
	Telemetry Telemetry
	// Defaults are options of all jobs of a queue, by its name: a field of a job's own options that is zero has theirs, as BullMQ's
	// queuesOptions. Id, parent and timestamp can't be among them. Optional.
	Defaults map[string]JobOptions
}

// FlowJob is a job that waits for its Children, each of which may have children of its own.
type FlowJob struct {
	// Queue is the name of the job's queue; required.
	Queue string
	// Prefix of its keys, default that of the Flows.
	Prefix string
	// Name of the job, and Data as in Queue.Add.
	Name string
	Data any
	// Opts as in Queue.Add. A node without JobID gets a UUID. Parent may be given at the root only, and Deduplication only to a root
	// without children: BullMQ refuses it to children, too. What a child's final failure does to its parent is said by the child's four …OnFailure options.
	Opts     JobOptions
	Children []FlowJob
}

// FlowNode is what became of a FlowJob, with its children in the same order.
type FlowNode struct {
	Added

	Queue    string
	Children []FlowNode
}

// Flows adds trees of jobs. It is safe for concurrent use.
type Flows struct {
	prefix    string
	cluster   bool
	client    *line
	scripts   *scripts
	telemetry Telemetry
	defaults  map[string]JobOptions
}

// NewFlows checks the options; it does not connect.
func NewFlows(o FlowOptions) (*Flows, error) {
	base, err := ParseRedisURL(o.RedisURL)
	if err != nil {
		return nil, fmt.Errorf("new flows: %w", err)
	}

	s, err := loadScripts()
	if err != nil {
		return nil, err
	}

	for name, defaults := range o.Defaults {
		if err := checkDefaults(&defaults); err != nil {
			return nil, fmt.Errorf("new flows: defaults of queue %q: %w", name, err)
		}
	}

	base.Dialer = o.Dialer
	if o.TLS != nil {
		base.TLSConfig = o.TLS
	}

	f := &Flows{
		prefix: o.Prefix, cluster: base.IsClusterMode, client: newHub(*base), scripts: s, telemetry: o.Telemetry,
		defaults: maps.Clone(o.Defaults),
	}
	if f.prefix == "" {
		f.prefix = DefaultPrefix
	}

	if f.cluster && !(keys{base: f.prefix}).hashTagged() {
		return nil, fmt.Errorf("new flows: %w: on a Redis Cluster the prefix %q needs a hash tag, such as {%s}", ErrBadName, f.prefix, f.prefix)
	}

	return f, nil
}

// Close gives the connections back.
func (f *Flows) Close() error {
	f.client.close()

	return nil
}

// Add adds a tree, all of it or nothing. A job that is there already is adopted: its data and options stay, and it becomes a child of
// the node above it – at once done if it is completed. If it belongs to another living parent (ErrParentTaken), or the root's own parent
// does not exist (ErrParentMissing), nothing is added at all.
//
// Add may be repeated after an error if the root has a custom id; it does so itself when an answer is lost.
func (f *Flows) Add(ctx context.Context, root FlowJob) (FlowNode, error) {
	added, err := f.AddBulk(ctx, []FlowJob{root})
	if err != nil {
		return FlowNode{}, err
	}

	return added[0], nil
}

// AddBulk adds several trees in one step, all of them or none. Answers are in the order of roots.
func (f *Flows) AddBulk(ctx context.Context, roots []FlowJob) ([]FlowNode, error) {
	if len(roots) == 0 {
		return nil, nil
	}

	p := &flowPlan{flows: f, now: time.Now(), trace: inject(ctx, f.telemetry)}
	for i := range roots {
		p.queue = append(p.queue, flowEntry{job: &roots[i]})
	}

	if err := p.build(); err != nil {
		return nil, fmt.Errorf("add flow: %w", err)
	}

	answers, err := f.send(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("add flow: %w", err)
	}

	return p.tree(answers), nil
}

// send runs the script, again if its answer was lost: the script then looks whether the first run did it.
func (f *Flows) send(ctx context.Context, p *flowPlan) ([]any, error) {
	doubt := false
	pause := newBackoff(20*time.Millisecond, time.Second)

	for try := 1; ; try++ {
		args := append([]any{flag(doubt), p.now.UnixMilli()}, p.args...)

		reply, err := f.scripts.flow.run(ctx, f.client, p.entries[0].keys, args...)
		if err == nil {
			return p.read(reply)
		}

		again := !isReply(err) || notNow(err)
		if !again || try == addTries || !pause.wait(ctx) {
			return nil, err
		}

		doubt = doubt || uncertain(err)
	}
}

// flowEntry is a node on its way into the script: level by level, as BullMQ orders them, so that parents come before their children.
type flowEntry struct {
	job    *FlowJob
	parent int // place of its parent, for nodes below a root
	below  bool
	keys   keys
	add    *addition
}

// flowPlan is one call of the flow script.
type flowPlan struct {
	flows   *Flows
	now     time.Time
	trace   propagation // of the caller
	queue   []flowEntry // not looked at yet
	entries []flowEntry
	args    []any
}

func (p *flowPlan) build() error {
	for len(p.queue) > 0 {
		e := p.queue[0]
		p.queue = p.queue[1:]

		if err := p.node(&e); err != nil {
			return fmt.Errorf("job %q: %w", e.job.Name, err)
		}

		if len(p.entries) == maxFlowNodes {
			return fmt.Errorf("%w: more than %d jobs in one flow", ErrBadOptions, maxFlowNodes)
		}

		place := len(p.entries)
		p.entries = append(p.entries, e)
		p.args = append(append(p.args, e.keys.base), e.add.list()...)

		for i := range e.job.Children {
			p.queue = append(p.queue, flowEntry{job: &e.job.Children[i], parent: place, below: true})
		}
	}

	return nil
}

// node checks one job and encodes it.
func (p *flowPlan) node(e *flowEntry) error {
	var err error
	if e.keys, err = newKeys(cmp.Or(e.job.Prefix, p.flows.prefix), e.job.Queue); err != nil {
		return err
	}

	if p.flows.cluster && len(p.entries) > 0 && e.keys.hashTag() != p.entries[0].keys.hashTag() {
		return fmt.Errorf("%w: on a Redis Cluster all jobs of a flow need the same hash tag", ErrBadName)
	}

	o := e.job.Opts
	if defaults, ok := p.flows.defaults[e.job.Queue]; ok {
		o.under(&defaults)
	}

	if len(e.job.Children) > 0 && o.Deduplication != nil {
		return fmt.Errorf("%w: a job with children can't be deduplicated", ErrBadOptions)
	}

	if e.below {
		if o.Parent != nil {
			return fmt.Errorf("%w: the parent of a job inside of a flow is the job above it", ErrBadOptions)
		}

		up := &p.entries[e.parent]
		o.Parent = &ParentRef{ID: up.add.id, Queue: up.keys.qualified()}
	}

	p.trace.into(&o)

	if e.add, err = addArgs(NewJob{Name: e.job.Name, Data: e.job.Data, Opts: o}, p.now); err != nil {
		return err
	}

	e.add.waits = len(e.job.Children) > 0
	if e.add.id == "" {
		e.add.id = newUUID() // as BullMQ: it is not among the stored options
	}

	if p.isAncestor(e) {
		return fmt.Errorf("%w: job %s is its own ancestor", ErrBadOptions, e.add.id)
	}

	return nil
}

// isAncestor reports whether the node is the same job as one above it, for which it would wait for ever.
func (p *flowPlan) isAncestor(e *flowEntry) bool {
	for at, below := e.parent, e.below; below; at, below = p.entries[at].parent, p.entries[at].below {
		if up := &p.entries[at]; up.add.id == e.add.id && up.keys.base == e.keys.base {
			return true
		}
	}

	return false
}

// read takes the script's answer apart. No answers: an earlier call had added everything.
func (p *flowPlan) read(reply any) ([]any, error) {
	parts, _ := reply.([]any)
	if len(parts) == 0 {
		return nil, fmt.Errorf("flow: %w: %T", errBadReply, reply)
	}

	switch kind, _ := parts[0].(string); {
	case kind == "there":
		return nil, nil
	case kind == "added" && len(parts) == 2:
		if answers, _ := parts[1].([]any); len(answers) == len(p.entries) {
			return answers, nil
		}
	case kind == "refused" && len(parts) == 3:
		at, _ := parts[1].(int64)
		code, _ := parts[2].(int64)

		if at >= 1 && int(at) <= len(p.entries) {
			return nil, &ScriptError{Code: Code(code), Op: "add flow with", JobID: p.entries[at-1].add.id}
		}
	}

	return nil, fmt.Errorf("flow: %w: %v", errBadReply, parts[0])
}

// tree puts the answers into the shape of the flows.
func (p *flowPlan) tree(answers []any) []FlowNode {
	nodes := make([]FlowNode, len(p.entries))

	for i := range p.entries {
		e := &p.entries[i]
		nodes[i] = FlowNode{Added: Added{ID: e.add.id}, Queue: e.job.Queue}

		if answers != nil {
			if added, err := e.add.answer(answers[i], false); err == nil {
				nodes[i].Added = added
			}
		}
	}

	var roots []FlowNode

	// From the last to the first, so that a node is whole before its parent takes it.
	for i := len(nodes) - 1; i >= 0; i-- {
		slices.Reverse(nodes[i].Children)

		to := &roots
		if e := &p.entries[i]; e.below {
			to = &nodes[e.parent].Children
		}

		*to = append(*to, nodes[i])
	}

	slices.Reverse(roots)

	return roots
}

// splitKey takes a job's key apart. A job id with a colon in it can't be told from the queue's name; BullMQ cuts there, too.
func splitKey(key string) (k keys, id string, ok bool) {
	base, id, ok := cutLast(key)
	if !ok {
		return keys{}, "", false
	}

	prefix, name, ok := cutLast(base)
	if !ok {
		return keys{}, "", false
	}

	return keys{prefix: prefix, name: name, base: base + ":"}, id, true
}

func cutLast(s string) (before, after string, ok bool) {
	at := strings.LastIndexByte(s, ':')
	if at < 0 {
		return "", "", false
	}

	return s[:at], s[at+1:], true
}
