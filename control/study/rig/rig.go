// Package rig lets the repeats of the ledger's study arise for real. Nothing is delivered twice because a generator says so: the generator of
// the model only says which events a fault hits, and what comes of it is counted where the effect is written.
//
//		carriers ──HTTP──▶ wire ──▶ door ──add──▶ Redis ──▶ workers ──▶ one store for each key, and one without a ledger
//		(claimcheck)      cuts off     (webhook,    master,    (queue; lost
//		                  replies       queue)      replica     after the effect)
//
//	  - Carrier retry: the wire cuts the reply off after the door has added the job. The carrier has to post again, and the door, which has no
//	    memory, adds a second job.
//	  - Replay on failover: the replica is promoted while the workers still talk to the old master, as in each failover without consensus. What
//	    they finish there is known to nobody when the old master dies: the new one has the jobs still waiting.
//	  - Redelivery: the worker loses its connections between the effect and the finish. Its lock runs out, and the stalled check gives the
//	    job to another one.
//
// The seven events of the shipments come in seven rounds, each event after the one before it has been written, as in a life.
package rig

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/posefleet/posefleet/control/study"
	"github.com/posefleet/posefleet/queue"
)

// Config says what happens where.
type Config struct {
	// RedisServer is the program; "" looks for redis-server on the PATH.
	RedisServer string
	// Dir is a folder for the servers, made if it is not there; the caller removes it.
	Dir string
	// Model is the day.
	Model study.Model
	// Database is where the stores are.
	Database study.Database
	// Workers is their number, at least 2: somebody has to find the jobs of those that are lost. 0: 16.
	Workers int
	// Lock is how long a job stays with a worker that is not heard of, from 100 ms; 0: 1 s. On a busy machine a short one is lost for no reason.
	Lock time.Duration
}

// Validate joins all faults.
func (c *Config) Validate() error {
	var faults []error
	if c.Dir == "" || c.Database.Empty == nil || c.Model.Shipments < 1 {
		faults = append(faults, errors.New("a folder, a database and shipments are needed"))
	}
	if c.Workers < 0 || c.Workers == 1 {
		faults = append(faults, errors.New("at least two workers are needed"))
	}
	if c.Lock != 0 && c.Lock < 100*time.Millisecond {
		faults = append(faults, errors.New("a lock lasts 100 ms at least"))
	}

	return errors.Join(faults...)
}

const (
	defaultWorkers = 16
	defaultLock    = time.Second
	// settleLimit bounds the wait until all jobs of a part of a round are done.
	settleLimit = 5 * time.Minute
	settlePoll  = 20 * time.Millisecond
)

// Run lets the day happen. The error is one of the rig; what the day itself did wrong is for Real.Check.
func Run(ctx context.Context, cfg Config) (out study.Real, err error) {
	if err := cfg.Validate(); err != nil {
		return out, fmt.Errorf("real repeats: %w", err)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := &rig{cfg: cfg, plan: newPlan(cfg.Model), stop: stop}
	defer func() { err = errors.Join(err, r.close()) }()
	began := time.Now()
	if err := r.start(ctx); err != nil {
		return out, fmt.Errorf("real repeats: %w", err)
	}
	for n := range study.EventsPerShipment() {
		if err := r.round(ctx, n); err != nil {
			return out, fmt.Errorf("real repeats, round %d: %w", n, errors.Join(err, context.Cause(ctx)))
		}
	}

	return r.result(ctx, time.Since(began))
}

// RunAll lets both days happen in each database. cfg says the rest; its Dir is made.
func RunAll(ctx context.Context, cfg Config, shipments int, in []study.Database) (map[string][]study.Real, error) {
	all := map[string][]study.Real{}
	for _, day := range study.Days() {
		for _, d := range in {
			one := cfg
			one.Model, one.Database = study.ModelOf(day), d
			one.Model.Shipments = shipments
			out, err := Run(ctx, one)
			if err != nil {
				return nil, fmt.Errorf("%s on %s: %w", day, d.Name, err)
			}
			all[day] = append(all[day], out)
		}
	}

	return all, nil
}

// rig is everything of one day.
type rig struct {
	cfg      Config
	plan     *plan
	stop     context.CancelCauseFunc
	book     *book
	pair     *pair
	queue    *queue.Queue
	line     *line
	door     *door
	wire     *wire
	carriers *carriers
	crew     *crew
	unseen   int
	failures int
}

func (r *rig) start(ctx context.Context) (err error) {
	if r.book, err = openBook(ctx, r.cfg.Database); err != nil {
		return err
	}
	if r.pair, err = startPair(ctx, r.cfg.RedisServer, r.cfg.Dir); err != nil {
		return err
	}
	r.line = newLine(r.pair)
	if r.queue, err = queue.NewQueue(r.line.options()); err != nil {
		return err
	}
	if r.crew, err = startCrew(ctx, r); err != nil {
		return err
	}
	if r.door, err = openDoor(ctx, r.queue); err != nil {
		return err
	}
	if r.wire, err = openWire(ctx, r.door.addr(), r.plan.loseReply); err != nil {
		return err
	}
	r.carriers, err = newCarriers(r.wire.addr(), r.door.secrets)

	return err
}

// close ends everything in the order of the messages.
func (r *rig) close() error {
	var faults []error
	if r.carriers != nil {
		r.carriers.close()
	}
	if r.wire != nil {
		r.wire.close()
	}
	if r.door != nil {
		faults = append(faults, r.door.close())
	}
	if r.crew != nil {
		r.crew.close()
	}
	if r.queue != nil {
		faults = append(faults, r.queue.Close())
	}
	if r.pair != nil {
		r.pair.close()
	}
	if r.book != nil {
		faults = append(faults, r.book.close())
	}

	return errors.Join(faults...)
}

// round sends one event of each shipment. Those that a failover is to hit come at its end.
func (r *rig) round(ctx context.Context, n int) error {
	calm, unlucky := r.plan.round(n)
	if err := r.carriers.post(ctx, calm); err != nil {
		return err
	}
	if err := r.settle(ctx); err != nil || len(unlucky) == 0 {
		return err
	}
	r.crew.pause()
	if err := r.carriers.post(ctx, unlucky); err != nil {
		return err
	}

	return r.failover(ctx)
}

// failover lets the workers finish what waits at a master that nobody follows any more, and ends that.
func (r *rig) failover(ctx context.Context) error {
	counts, err := r.queue.Counts(ctx)
	if err != nil {
		return err
	}
	if err := r.pair.promote(ctx); err != nil {
		return err
	}
	r.crew.resume()
	if err := r.settle(ctx); err != nil {
		return err
	}
	r.unseen += int(counts.Waiting)
	if err := r.pair.failOver(ctx); err != nil {
		return err
	}

	return r.settle(ctx)
}

// settle waits until no job waits or runs.
func (r *rig) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleLimit, errors.New("the jobs are not done"))
	defer cancel()
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	for {
		c, err := r.queue.Counts(ctx)
		if err == nil && c.Waiting+c.Active+c.Delayed+c.Prioritized == 0 {
			r.failures = int(c.Failed)

			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

func (r *rig) result(ctx context.Context, took time.Duration) (study.Real, error) {
	out := study.Real{
		Database: r.cfg.Database.Name, Shipments: r.cfg.Model.Shipments, Failed: r.failures, Took: took,
		Made: study.Faults{LostReplies: r.wire.lost(), Failovers: r.pair.failovers(), Unseen: r.unseen, LostWorkers: r.crew.lost()},
	}

	return out, r.book.fill(ctx, &out)
}

// plan is which events a fault is to hit, by the generator of the model; each fault hits once.
type plan struct {
	events [][]study.Event // by their number
	mu     sync.Mutex
	hits   map[string]map[int]bool // by the event's id: indexes into study.Sources
}

func newPlan(m study.Model) *plan {
	p := &plan{events: make([][]study.Event, study.EventsPerShipment()), hits: map[string]map[int]bool{}}
	for e, source := range m.Deliveries {
		if source < 0 {
			p.events[e.Number] = append(p.events[e.Number], e)
			p.hits[e.ID()] = map[int]bool{}
		} else {
			p.hits[e.ID()][source] = true
		}
	}

	return p
}

// round is the events of a number, those apart that come again by a failover.
func (p *plan) round(n int) (calm, unlucky []study.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events[n] {
		if p.hits[e.ID()][study.Replay] {
			unlucky = append(unlucky, e)
		} else {
			calm = append(calm, e)
		}
	}

	return calm, unlucky
}

// take tells whether the fault is to hit the event now.
func (p *plan) take(id string, source int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	hit := p.hits[id][source]
	delete(p.hits[id], source)

	return hit
}

func (p *plan) loseReply(id string) bool { return p.take(id, study.CarrierRetry) }

func (p *plan) loseWorker(id string) bool { return p.take(id, study.Redelivery) }
