package worker

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/worker/internal/extractor"
)

// state is what the worker as a whole is doing.
type state string

const (
	stateStarting state = "starting"
	stateIdle     state = "idle"
	stateBusy     state = "busy"
	stateDraining state = "draining"
)

func states() []state { return []state{stateStarting, stateIdle, stateBusy, stateDraining} }

// jobBuckets fit work of minutes: 1 s to 3600 s.
func jobBuckets() []float64 {
	return []float64{1, 2.5, 5, 10, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1200, 1800, 3600}
}

// stageBuckets reach from a quick redeem to a long extraction.
func stageBuckets() []float64 {
	return append([]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5}, jobBuckets()...)
}

// gauges are read when somebody asks.
type gauges struct {
	slots     func() float64
	inUse     func() float64
	state     func() state
	lastFetch func() time.Time     // nil: the worker takes nothing from the queue
	lowest    func() time.Duration // 0 when no lock is held
	protected func() float64
}

// metrics are all of the worker's, in a registry of their own. No label holds an id or anything from outside.
type metrics struct {
	registry     *prometheus.Registry
	jobs         *prometheus.CounterVec
	jobDuration  *prometheus.HistogramVec
	stages       *prometheus.HistogramVec
	queueWait    prometheus.Histogram
	door         *prometheus.CounterVec
	claims       *prometheus.CounterVec
	callbacks    *prometheus.CounterVec
	bytes        prometheus.Counter
	resumes      *prometheus.CounterVec
	locks        *prometheus.CounterVec
	restarts     *prometheus.CounterVec
	framesTotal  prometheus.Counter
	startToReady prometheus.Gauge
	build        *prometheus.GaugeVec
}

func newMetrics(g gauges) *metrics {
	m := &metrics{
		registry:     prometheus.NewRegistry(),
		jobs:         counterVec("jobs_total", "Runs that ended, by door and outcome.", "source", "outcome"),
		jobDuration:  histogramVec("job_duration_seconds", "Wall time of a run.", jobBuckets(), "outcome"),
		stages:       histogramVec("job_stage_duration_seconds", "Wall time of a stage.", stageBuckets(), "stage"),
		door:         counterVec("door_requests_total", "Answers of the HTTP door, by status code.", "code"),
		claims:       counterVec("claim_requests_total", "Requests to the control plane about claims, by result.", "result"),
		callbacks:    counterVec("callback_attempts_total", "Tries to post a result, by result.", "result"),
		resumes:      counterVec("download_resumes_total", "Downloads that went on after a break, by reason.", "reason"),
		locks:        counterVec("lock_extensions_total", "Renewals of job locks, by result.", "result"),
		restarts:     counterVec("extractor_restarts_total", "Extractor processes that had to be replaced, by reason.", "reason"),
		bytes:        prometheus.NewCounter(prometheus.CounterOpts(opts("download_bytes_total", "Bytes of clips received."))),
		framesTotal:  prometheus.NewCounter(prometheus.CounterOpts(opts("frames_total", "Frames extracted."))),
		startToReady: prometheus.NewGauge(prometheus.GaugeOpts(opts("start_to_ready_seconds", "Time from the start to the first moment at which work could be taken."))),
		build:        prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("build_info", "Always 1.")), []string{"version", "revision", "goversion", "model"}),
		queueWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "posefleet", Name: "job_queue_wait_seconds", Help: "Time from a job's adding to its first start.", Buckets: stageBuckets(),
		}),
	}
	m.preset()
	m.registry.MustRegister(m.jobs, m.jobDuration, m.stages, m.queueWait, m.door, m.claims, m.callbacks, m.bytes, m.resumes, m.locks,
		m.restarts, m.framesTotal, m.startToReady, m.build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registerGauges(g)
	return m
}

// preset makes the series that alarms watch, so that they are 0 and not missing before the first event.
func (m *metrics) preset() {
	for _, o := range outcomes() {
		for _, s := range []protocol.Source{protocol.SourceQueue, protocol.SourceHTTP} {
			m.jobs.WithLabelValues(string(s), string(o))
		}
	}
	for _, r := range extractor.Reasons() {
		m.restarts.WithLabelValues(string(r))
	}
	for _, r := range []string{"ok", "lost", "error"} {
		m.locks.WithLabelValues(r)
	}
	for _, k := range []claimcheck.Kind{claimcheck.KindRefused, claimcheck.KindUnavailable} {
		m.claims.WithLabelValues(string(k))
	}
	for _, r := range []string{string(claimcheck.ReportStored), "retried"} {
		m.callbacks.WithLabelValues(r)
	}
}

func (m *metrics) registerGauges(g gauges) {
	gauge := func(name, help string, f func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts(name, help)), f))
	}
	gauge("slots", "Analyses that may run at once.", g.slots)
	gauge("slots_in_use", "Analyses that run.", g.inUse)
	gauge("task_protected", "1 while Amazon ECS has agreed not to scale this task in.", g.protected)
	gauge("lock_remaining_seconds", "Shortest time that a held job lock still has; the lock duration when none is held.", func() float64 {
		return g.lowest().Seconds()
	})
	for _, s := range states() {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "posefleet", Name: "state", Help: "1 for the state that the worker is in.", ConstLabels: prometheus.Labels{"state": string(s)},
		}, func() float64 {
			if g.state() == s {
				return 1
			}
			return 0
		}))
	}
	if g.lastFetch == nil {
		return // the queue's door is shut: a series that stands still would be an alarm
	}
	gauge("last_fetch_timestamp_seconds", "End of the last fetch round that Redis answered.", func() float64 {
		if t := g.lastFetch(); !t.IsZero() {
			return float64(t.UnixMilli()) / 1000
		}
		return 0
	})
}

// handler serves Prometheus text and OpenMetrics, whichever is asked for.
func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, Registry: m.registry, MaxRequestsInFlight: 4, Timeout: 5 * time.Second})
}

// stage counts a stage; traceID, where there is one, becomes the exemplar that leads from a slow bucket to its trace.
func (m *metrics) stage(s protocol.Stage, took time.Duration, traceID string) {
	observe(m.stages.WithLabelValues(string(s)), took, traceID)
}

func observe(o prometheus.Observer, took time.Duration, traceID string) {
	if with, ok := o.(prometheus.ExemplarObserver); ok && traceID != "" {
		with.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": traceID})
		return
	}
	o.Observe(took.Seconds())
}

func (m *metrics) frames(n int) { m.framesTotal.Add(float64(max(n, 0))) }

func (m *metrics) ended(s protocol.Source, o outcome, took time.Duration, traceID string) {
	m.jobs.WithLabelValues(string(s), string(o)).Inc()
	observe(m.jobDuration.WithLabelValues(string(o)), took, traceID)
}

func (m *metrics) doorAnswer(code int) { m.door.WithLabelValues(strconv.Itoa(code)).Inc() }

func (m *metrics) restarted(r extractor.Reason) { m.restarts.WithLabelValues(string(r)).Inc() }

func (m *metrics) setBuild(v Version, model string) {
	m.build.Reset()
	m.build.WithLabelValues(v.Version, v.Revision, runtime.Version(), model).Set(1)
}

// claimWatch feeds claimcheck's observations into the metrics.
type claimWatch struct {
	claimcheck.NopObserver
	m *metrics
}

// ClaimRequest counts requests to the control plane.
func (w claimWatch) ClaimRequest(_, result string) { w.m.claims.WithLabelValues(result).Inc() }

// CallbackTry counts tries of results.
func (w claimWatch) CallbackTry(result string) { w.m.callbacks.WithLabelValues(result).Inc() }

// Downloaded counts bytes.
func (w claimWatch) Downloaded(n int64) { w.m.bytes.Add(float64(n)) }

// DownloadResumed counts breaks.
func (w claimWatch) DownloadResumed(reason string) { w.m.resumes.WithLabelValues(reason).Inc() }

func opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: "posefleet", Name: name, Help: help}
}

func counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), labels)
}

func histogramVec(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "posefleet", Name: name, Help: help, Buckets: buckets}, labels)
}
