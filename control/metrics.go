package control

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/posefleet/posefleet/control/store"
)

const (
	metricPrefix = "posefleet_control_"
	// readingLife is how long what was read from the database is shown again: several scrapers cost no more than one.
	readingLife    = 5 * time.Second
	readingTimeout = 5 * time.Second
)

// metrics are all of the control plane's, in a registry of their own. No label holds an id or anything from outside.
type metrics struct {
	registry *prometheus.Registry
	// results counts what arrived by type and decision, claims by what redeemers were told, notices by what became of a try.
	results, claims, notices *prometheus.CounterVec
	// requests counts answers by route and status.
	requests *prometheus.CounterVec
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricPrefix + name, Help: help}, labels)
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		results:  counter("results_total", "Results of workers by type and by what was decided.", "type", "decision"),
		claims:   counter("claims_total", "Redemptions by what they were told.", "result"),
		notices:  counter("notices_total", "Tries to tell the customer, by what became of them.", "result"),
		requests: counter("requests_total", "Answers by route and status.", "route", "code"),
	}
	m.registry.MustRegister(m.results, m.claims, m.notices, m.requests, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	return m
}

// request counts an answer. The route is the router's pattern: there are as many as routes.
func (m *metrics) request(pattern string, status int) {
	if m == nil {
		return
	}
	if pattern == "" {
		pattern = "none"
	}
	m.requests.WithLabelValues(pattern, strconv.Itoa(status)).Inc()
}

// handler is GET /metrics.
func (m *metrics) handler() handler {
	h := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})

	return func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)

		return nil
	}
}

// reading is what the database and the queue said at one time.
type reading struct {
	at      time.Time
	up      bool
	open    map[store.Status]int64
	backlog map[store.OutboxKind]store.Backlog
	fleet   store.Fleet
	runs    map[store.RunStage]store.RunCount
}

// stateCollector shows the state that is in the database and the queue, read when somebody asks.
type stateCollector struct {
	store  store.Store
	census *census
	now    func() time.Time

	mu   sync.Mutex
	last reading

	up, analyses, runs, runIdle, outbox, outboxAge, ledger, jobs, oldest, paused, workers, desired, running, ready *prometheus.Desc
}

func newStateCollector(s store.Store, c *census, now func() time.Time) *stateCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(metricPrefix+name, help, labels, nil)
	}

	return &stateCollector{
		store: s, census: c, now: now,
		up:        desc("database_up", "1 while the database answers."),
		analyses:  desc("analyses", "Analyses that have not been decided, by state.", "state"),
		runs:      desc("open_runs", "Runs that have not ended, by the stage that they have reached; followed: they wait for what somebody else began.", "stage"),
		runIdle:   desc("open_run_idle_seconds", "How long the run of a stage that has been there for longest has not moved.", "stage"),
		outbox:    desc("outbox_entries", "Intents that have not been carried out, by kind.", "kind"),
		outboxAge: desc("outbox_oldest_seconds", "How long the oldest intent of a kind has waited.", "kind"),
		ledger:    desc("ledger_total", "Effects that this process let happen or held back, by effect.", "effect", "result"),
		jobs:      desc("queue_jobs", "Jobs of the queue by state, at the latest census.", "state"),
		oldest:    desc("queue_oldest_seconds", "How long the oldest job has waited, at the latest census."),
		paused:    desc("queue_paused", "1 while the queue is paused."),
		workers:   desc("queue_workers", "Workers connected to the queue."),
		desired:   desc("fleet_desired", "How many workers there are to be."),
		running:   desc("fleet_running", "How many workers run."),
		ready:     desc("fleet_ready", "How many workers are ready."),
	}
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.up, c.analyses, c.runs, c.runIdle, c.outbox, c.outboxAge, c.ledger, c.jobs, c.oldest, c.paused, c.workers, c.desired, c.running, c.ready,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	r := c.read()
	gauge(c.up, asNumber(r.up))
	for status, n := range r.open {
		gauge(c.analyses, float64(n), string(status))
	}
	for stage, n := range r.runs {
		idle := 0.0
		if n.Runs > 0 {
			idle = max(0, c.now().Sub(n.MovedAt).Seconds())
		}
		gauge(c.runs, float64(n.Runs), stage.String())
		gauge(c.runIdle, idle, stage.String())
	}
	for kind, b := range r.backlog {
		gauge(c.outbox, float64(b.Entries), string(kind))
		gauge(c.outboxAge, max(0, c.now().Sub(b.Oldest).Seconds()), string(kind))
	}
	if !r.fleet.SeenAt.IsZero() {
		gauge(c.desired, float64(r.fleet.Desired))
		gauge(c.running, float64(r.fleet.Running))
		gauge(c.ready, float64(r.fleet.Ready))
	}
	for effect, n := range c.store.Counts() {
		out <- prometheus.MustNewConstMetric(c.ledger, prometheus.CounterValue, float64(n.Processed), string(effect), "processed")
		out <- prometheus.MustNewConstMetric(c.ledger, prometheus.CounterValue, float64(n.Suppressed), string(effect), "suppressed")
	}
	c.collectQueue(gauge)
}

// collectQueue shows the latest census; while Redis is away there is none.
func (c *stateCollector) collectQueue(gauge func(*prometheus.Desc, float64, ...string)) {
	q := c.census.last()
	if q == nil {
		return
	}
	gauge(c.jobs, float64(q.Waiting), "waiting")
	gauge(c.jobs, float64(q.Active), "active")
	gauge(c.jobs, float64(q.Delayed), "delayed")
	gauge(c.oldest, float64(q.OldestSeconds))
	gauge(c.paused, asNumber(q.Paused))
	if q.Workers >= 0 {
		gauge(c.workers, float64(q.Workers))
	}
}

// read asks the database, unless it did so a moment ago.
func (c *stateCollector) read() reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now().Sub(c.last.at) < readingLife && c.last.up {
		return c.last
	}
	ctx, cancel := context.WithTimeout(context.Background(), readingTimeout)
	defer cancel()
	r := reading{at: c.now()}
	var err error
	if r.open, err = c.store.Open(ctx); err == nil {
		if r.backlog, err = c.store.Backlog(ctx); err == nil {
			if r.fleet, err = c.store.Fleet(ctx); err == nil {
				r.runs, err = c.store.RunStages(ctx)
			}
		}
	}
	r.up = err == nil
	c.last = r

	return r
}

func asNumber(b bool) float64 {
	if b {
		return 1
	}

	return 0
}
