package queue

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// commandTimeout leaves room for a network with some seconds of delay.
	commandTimeout = 6 * time.Second
	// callTimeout is for two answers, each of which has commandTimeout by its connection: a script that the server does not know any more is
	// sent again whole, and a new connection may have a greeting first.
	callTimeout = 2 * commandTimeout
	addTries    = 4
)

// Options name a queue. All BullMQ clients with the same Redis, prefix and name share it.
type Options struct {
	// RedisURL as in ParseRedisURL; required.
	RedisURL string
	// Prefix of all keys, default DefaultPrefix. For Redis Cluster it needs a hash tag, such as {bull}.
	Prefix string
	// Name of the queue, without a colon; required.
	Name string
	// Logger, default: none.
	Logger *slog.Logger
	// TLS is used for all connections instead of what RedisURL says about TLS. Optional.
	TLS *tls.Config
	// Dialer makes the connections in the place of the network: a tunnel, or the in-memory Redis of queuetest. It gets the addresses of
	// RedisURL, and TLS is its own affair. Optional.
	Dialer Dialer
	// Defaults are options of all jobs that are added by Add, AddBulk and UpsertScheduler: a field of a job's own options that is zero
	// takes them. nil: none. Workers and readers do not need them.
	Defaults *JobOptions
	// Telemetry carries traces from producers to handlers; nil: none, though Job.Opts tell what a producer has stored.
	Telemetry Telemetry
}

// Dialer makes a connection to a Redis server, as net.Dialer.DialContext does.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// resolve checks the options and turns them into what the actors need.
func (o *Options) resolve() (redis.UniversalOptions, keys, *slog.Logger, error) {
	base, err := ParseRedisURL(o.RedisURL)
	if err != nil {
		return redis.UniversalOptions{}, keys{}, nil, err
	}

	k, err := newKeys(o.Prefix, o.Name)
	if err != nil {
		return redis.UniversalOptions{}, keys{}, nil, err
	}

	if base.IsClusterMode && !k.hashTagged() {
		return redis.UniversalOptions{}, keys{}, nil,
			fmt.Errorf("%w: on a Redis Cluster the prefix %q needs a hash tag, such as {%s}", ErrBadName, k.prefix, k.prefix)
	}

	base.Dialer = o.Dialer
	if o.TLS != nil {
		base.TLSConfig = o.TLS
	}

	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}

	return *base, k, log.With(slog.String("queue", k.name)), nil
}

// Queue adds, reads and steers jobs. It is safe for concurrent use.
type Queue struct {
	keys      keys
	client    *line
	scripts   *scripts
	defaults  *JobOptions
	telemetry Telemetry
}

// Added is the answer to an Add.
type Added struct {
	// ID of the job that is there now: the new one, or the one in its way.
	ID string
	// Duplicate: a job with this custom id was there already; nothing was added or changed.
	Duplicate bool
	// Deduplicated: another job owns the deduplication id; ID is that job's.
	Deduplicated bool
}

// NewJob is a job for AddBulk.
type NewJob struct {
	Name string
	Data any
	Opts JobOptions
}

// NewQueue checks the options. It does not connect: a Redis that is not there yet is the calls' affair.
func NewQueue(o Options) (*Queue, error) {
	base, k, _, err := o.resolve()
	if err != nil {
		return nil, fmt.Errorf("new queue: %w", err)
	}

	if err := checkDefaults(o.Defaults); err != nil {
		return nil, fmt.Errorf("new queue: defaults: %w", err)
	}

	s, err := loadScripts()
	if err != nil {
		return nil, err
	}

	return &Queue{keys: k, client: newHub(base), scripts: s, defaults: o.Defaults, telemetry: o.Telemetry}, nil
}

// Name is the queue's name.
func (q *Queue) Name() string { return q.keys.name }

// Close gives the connections back.
func (q *Queue) Close() error {
	q.client.close()

	return nil
}

// Ping reports whether Redis answers.
func (q *Queue) Ping(ctx context.Context) error {
	if err := q.client.get().Ping(ctx).Err(); err != nil {
		return fmt.Errorf("ping redis: %w", err)
	}

	return nil
}

// Add adds a job. data is encoded as JSON, nil as {}; a json.RawMessage is stored byte for byte. With a custom id Add may be repeated
// after any error, and does so itself a few times when an answer is lost; without one it is sent once.
func (q *Queue) Add(ctx context.Context, name string, data any, o JobOptions) (Added, error) {
	o.under(q.defaults)
	inject(ctx, q.telemetry).into(&o)

	args, err := addArgs(NewJob{Name: name, Data: data, Opts: o}, time.Now())
	if err != nil {
		return Added{}, fmt.Errorf("add job %q: %w", name, err)
	}

	doubt := false
	pause := newBackoff(20*time.Millisecond, time.Second)

	for try := 1; ; try++ {
		reply, err := args.send(ctx, q)
		if err == nil {
			return args.answer(reply, doubt)
		}

		if !args.repeatable(err) || try == addTries || !pause.wait(ctx) {
			return Added{}, fmt.Errorf("add job %q: %w", name, err)
		}

		doubt = doubt || uncertain(err)
	}
}

// addition is one call of a script that adds.
type addition struct {
	id               string // "": the script gives a number
	name, data, opts []byte
	o                JobOptions
	waits            bool // for children that are added with it
	timestamp        string
	parentKey        string
	parent           []byte
}

func addArgs(job NewJob, now time.Time) (*addition, error) {
	o := job.Opts
	if err := o.validate(); err != nil {
		return nil, err
	}

	return encodeAddition(job, now)
}

func encodeAddition(job NewJob, now time.Time) (*addition, error) {
	o := job.Opts
	a := &addition{id: o.JobID, name: []byte(job.Name), o: o, data: []byte("{}")}

	var err error

	if job.Data != nil {
		if a.data, err = encodeJSON(job.Data); err != nil {
			return nil, err
		}
	}

	if o.SizeLimit > 0 && len(a.data) > o.SizeLimit {
		return nil, fmt.Errorf("%w: data of %d bytes exceeds the limit of %d", ErrBadOptions, len(a.data), o.SizeLimit)
	}

	if a.opts, err = encodeOptions(&o); err != nil {
		return nil, err
	}

	if !o.Timestamp.IsZero() {
		now = o.Timestamp
	}

	a.timestamp = strconv.FormatInt(now.UnixMilli(), 10)

	return a, a.setParent()
}

func (a *addition) setParent() error {
	p := a.o.Parent
	if p == nil {
		return nil
	}

	var err error

	a.parentKey = p.Queue + ":" + p.ID
	a.parent, err = encodeJSON(wireParent{
		ID: p.ID, QueueKey: p.Queue, FailParent: a.o.FailParentOnFailure, ContinueParent: a.o.ContinueParentOnFailure,
		IgnoreDependency: a.o.IgnoreDependencyOnFailure, RemoveDependency: a.o.RemoveDependencyOnFailure,
	})

	return err
}

// send is one call of the script that is enough for the job.
func (a *addition) send(ctx context.Context, q *Queue) (any, error) {
	if a.plain() {
		return q.scripts.add.run(ctx, q.client, q.keys, a.id, a.name, a.data, a.opts, a.timestamp)
	}

	return q.scripts.addAny.run(ctx, q.client, q.keys, a.list()...)
}

// list is ARGV of add_any.lua.
func (a *addition) list() []any {
	dedup, ttl, flags := a.dedup()

	return []any{
		a.id, a.name, a.data, a.opts, a.timestamp, formatMillis(toMillis(a.o.Delay)), a.o.Priority, flag(a.o.LIFO),
		flag(a.waits), a.parentKey, a.parent, dedup, ttl, flags, "",
	}
}

func (a *addition) dedup() (id, ttl, flags string) {
	d := a.o.Deduplication
	if d == nil {
		return "", "", ""
	}

	var b strings.Builder

	for letter, set := range map[byte]bool{'e': d.Extend, 'r': d.Replace, 'k': d.KeepLastIfActive, 's': d.Reschedule} {
		if set {
			b.WriteByte(letter)
		}
	}

	return d.ID, formatMillis(toMillis(d.TTL)), b.String()
}

// repeatable: a custom id makes the second run of a lost call harmless; otherwise only a call that was never sent may be repeated.
func (a *addition) repeatable(err error) bool {
	if isReply(err) {
		return notNow(err)
	}

	return a.o.JobID != "" || neverSent(err)
}

// answer reads the script's reply. After a lost answer the duplicate may be our own first try: it has our timestamp.
func (a *addition) answer(reply any, doubt bool) (Added, error) {
	if code, ok := reply.(int64); ok && code < 0 {
		return Added{}, &ScriptError{Code: Code(code), Op: "add", JobID: a.o.JobID}
	}

	parts, _ := reply.([]any)
	if len(parts) < 2 {
		return Added{}, fmt.Errorf("add: %w: %T", errBadReply, reply)
	}

	kind, _ := parts[0].(string)
	id, _ := parts[1].(string)
	added := Added{ID: id, Deduplicated: kind == "deduplicated"}

	if kind == "duplicate" {
		added.Duplicate = !doubt || len(parts) < 3 || parts[2] != a.timestamp
	}

	return added, nil
}

// flag is a truth value as scripts take it.
func flag(b bool) string {
	if b {
		return "1"
	}

	return ""
}
