package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/internal/envconfig"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker/internal/ecs"
	"github.com/posefleet/posefleet/worker/internal/extractor"
	"github.com/posefleet/posefleet/worker/internal/scratch"
	"github.com/posefleet/posefleet/worker/internal/slots"
	"github.com/posefleet/posefleet/worker/internal/trace"
)

const (
	// giveBackTimeout bounds the giving back of everything: 2 s until an extractor is killed, the interruption, the
	// release, the queue's write.
	giveBackTimeout = 20 * time.Second
	// drainDelay is how long an idle worker blocks on the queue. A connection that has fallen silent is found out only when that time is
	// over: with BullMQ's 5 s the next job would wait longer than it has to.
	drainDelay = 3 * time.Second
	// closeTimeout bounds the last answers of the servers.
	closeTimeout = 2 * time.Second
)

// Worker is the container's life:
//
//	starting --extractor said hello--> idle <--> busy
//	    \________________________________|________/
//	                                     | Drain (SIGTERM)
//	                                 draining --all ended, or given back after DrainTimeout--> Run returns
type Worker struct {
	cfg     Config
	log     *slog.Logger
	born    time.Time
	slots   *slots.Slots
	pool    *extractor.Pool
	engine  *engine
	metrics *metrics
	tracer  *trace.Tracer
	watch   *queueWatch
	queue   *queue.Worker // nil while the queue door is shut
	door    *httpDoor
	protect *ecs.Protector // nil: no protection
	demand  *queue.Queue   // what there is to take; only with protection

	listening chan struct{} // closed when both addresses are known
	readied   chan struct{} // closed when work can be taken for the first time
	drained   chan struct{} // closed by Drain
	given     chan struct{} // closed by GiveBack
	httpRuns  sync.WaitGroup

	mu        sync.Mutex
	drainOnce sync.Once
	giveOnce  sync.Once
	drainedAt time.Time // written by Drain
	addr      string
	adminAddr string
}

// New checks the configuration, makes the work directory if need be, and builds the worker. It neither connects nor listens
// nor starts anything. A work directory that can't be one is a *ConfigError.
func New(cfg Config, log *slog.Logger) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := scratch.Check(cfg.WorkDir); err != nil {
		return nil, envconfig.Fault("WORK_DIR", "can't be the work directory: %v", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s, err := slots.New(cfg.Slots)
	if err != nil {
		return nil, err
	}
	w := &Worker{
		cfg: cfg, log: log, born: time.Now(), slots: s,
		listening: make(chan struct{}), readied: make(chan struct{}), drained: make(chan struct{}), given: make(chan struct{}),
	}
	w.metrics = newMetrics(w.gauges())
	w.watch = &queueWatch{m: w.metrics}
	w.metrics.setBuild(BuildVersion(), "")
	return w, nil
}

// Run works until Drain or GiveBack has been called and nothing runs any more, or until ctx ends, which gives
// everything back. It returns nil after an orderly end.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.build(ctx); err != nil {
		return err
	}
	defer func() {
		if err := w.engine.space.Close(); err != nil {
			w.log.Error("scratch folder not removed", slog.String("error", err.Error()))
		}
	}()
	servers, err := w.listen(ctx)
	if err != nil {
		return err
	}
	life := newLife(ctx, w)
	life.start(servers)
	err = life.await()
	life.stop(servers)
	w.log.Info("worker stopped")
	return err
}

// Drain stops taking work on both doors. Running work goes on for at most DrainTimeout, then it is given back.
func (w *Worker) Drain() {
	w.drainOnce.Do(func() {
		w.mu.Lock()
		w.drainedAt = time.Now()
		w.mu.Unlock()
		close(w.drained)
	})
}

// GiveBack drains and gives running work back at once.
func (w *Worker) GiveBack() {
	w.Drain()
	w.giveOnce.Do(func() { close(w.given) })
}

// Ready is closed when work can be taken for the first time.
func (w *Worker) Ready() <-chan struct{} { return w.readied }

// Listening is closed when both addresses are known and answered at.
func (w *Worker) Listening() <-chan struct{} { return w.listening }

// Addr is the HTTP door's address, "" while it is shut; valid after Listening.
func (w *Worker) Addr() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.addr
}

// AdminAddr is the admin port's address; valid after Listening.
func (w *Worker) AdminAddr() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.adminAddr
}

// build makes the parts that need the machine: the worker's id, the scratch folder, the extractor pool.
func (w *Worker) build(ctx context.Context) error {
	space, err := scratch.Open(w.cfg.WorkDir)
	if err != nil {
		return err
	}
	if space.Swept > 0 {
		w.log.Info("emptied the scratch space of workers that are gone", slog.Int("folders", space.Swept))
	}
	for _, warning := range w.cfg.Warnings() {
		w.log.Warn("configuration", slog.String("warning", warning))
	}
	id := workerID(ctx, w.cfg.ECSMetadataURI, w.log)
	w.log = w.log.With(slog.String("worker_id", id))
	traces := w.cfg.Traces
	traces.Version, traces.Instance = BuildVersion().Version, id
	w.tracer = trace.New(traces, w.log)
	if err := errors.Join(w.buildEngine(id, space), w.buildQueue(id)); err != nil {
		return errors.Join(err, space.Close())
	}
	return nil
}

func (w *Worker) buildEngine(id string, space *scratch.Space) error {
	client, err := claimcheck.New(claimcheck.Config{
		ControlURL: w.cfg.ControlURL, Signer: webhook.NewSigner(w.cfg.WorkerSecrets), WorkerID: id,
		StorageHosts: w.cfg.StorageHosts, CallbackHosts: w.cfg.CallbackHosts, AllowInsecure: w.cfg.AllowInsecure,
		MaxInputBytes: int64(w.cfg.MaxInput), UserAgent: "posefleet-worker/" + BuildVersion().Version,
		Logger: w.log, Observer: claimWatch{m: w.metrics}, Header: trace.ToHeader,
	})
	if err != nil {
		return fmt.Errorf("claim client: %w", err)
	}
	w.pool, err = extractor.New(extractor.Config{
		Command: w.cfg.ExtractorCommand, Env: w.cfg.ExtractorEnv, Count: w.cfg.Slots, TempDir: space.ExtractorTmp(),
		TimeoutCause: ErrJobTimeout, OnRestart: w.metrics.restarted, Logger: w.log,
	})
	if err != nil {
		return err
	}
	w.engine = &engine{
		workerID: id, jobTimeout: w.cfg.JobTimeout, maxInput: int64(w.cfg.MaxInput), client: client, pool: w.pool,
		space: space, runs: newRuns(), reach: &reach{}, metrics: w.metrics,
		tracer: w.tracer, secret: w.cfg.WorkerSecrets[0].Fingerprint(), log: w.log,
	}
	if w.cfg.TaskProtection != ProtectionOff && w.cfg.ECSAgentURI != "" {
		w.protect = ecs.NewProtector(w.cfg.ECSAgentURI, w.cfg.TaskProtection == ProtectionRequired, w.cfg.JobTimeout,
			func() bool { return w.slots.InUse() > 0 }, w.log)
	}
	return nil
}

func (w *Worker) buildQueue(id string) error {
	if !w.cfg.QueueEnabled || w.pool == nil {
		return nil
	}
	o := queue.DefaultWorkerOptions()
	o.Options = w.queueOptions()
	o.WorkerName, o.Gate, o.Observer = id, &gate{slots: w.slots, pool: w.pool, reach: w.engine.reach, watch: w.watch}, w.watch
	o.LockDuration, o.LockRenewTime = w.cfg.LockDuration, w.cfg.LockRenewTime
	o.StalledInterval, o.MaxStalledCount = w.cfg.StalledInterval, w.cfg.MaxStalledCount
	o.DrainDelay = drainDelay
	door := &queueDoor{engine: w.engine, slots: w.slots, hold: w.hold}
	o.OnDeferredFailure = door.deferredFailure
	if w.protect != nil {
		var err error
		if w.demand, err = queue.NewQueue(o.Options); err != nil {
			return err
		}
		o.BeforeClaim = w.beforeClaim
	}
	var err error
	w.queue, err = queue.NewWorker(o, door.handle)
	return err
}

func (w *Worker) queueOptions() queue.Options {
	return queue.Options{RedisURL: w.cfg.RedisURL, Prefix: w.cfg.Prefix, Name: w.cfg.Queue, Logger: w.log, Telemetry: trace.Carriers{}}
}

// beforeClaim protects the task before a job is taken. An idle worker looks for jobs every few seconds all the same:
// that alone must not keep the task from being scaled in, so it asks first whether there is anything to take.
func (w *Worker) beforeClaim(ctx context.Context) error {
	if !w.protect.Protected() {
		counts, err := w.demand.Counts(ctx)
		if err == nil && (counts.Paused || counts.Waiting+counts.Prioritized+counts.Delayed == 0) {
			return nil
		}
	}
	return w.protect.Hold(ctx)
}

// hold asks for scale-in protection where there is any.
func (w *Worker) hold(ctx context.Context) error {
	if w.protect == nil {
		return nil
	}
	return w.protect.Hold(ctx)
}

// servers are the two listeners; door is nil while the HTTP door is shut.
type servers struct{ door, admin *server }

type server struct {
	http     *http.Server
	listener net.Listener
}

// listen opens both ports. The HTTP door answers from here on, with 503 until the extractor is ready.
func (w *Worker) listen(ctx context.Context) (servers, error) {
	var s servers
	var err error
	if s.admin, err = w.open(ctx, w.cfg.AdminListen, (&admin{w: w, version: BuildVersion()}).handler()); err != nil {
		return s, fmt.Errorf("admin port (%sADMIN_LISTEN): %w", EnvPrefix, err)
	}
	if w.cfg.HTTPEnabled {
		w.door = &httpDoor{
			engine: w.engine, slots: w.slots, verifier: webhook.NewVerifier(w.cfg.DoorSecrets), replays: newReplays(),
			usable: func() bool { ok, _ := w.pool.Usable(); return ok }, hold: w.hold, base: context.WithoutCancel(ctx),
			spawn: w.httpRuns.Go,
		}
		if s.door, err = w.open(ctx, w.cfg.Listen, w.door.handler()); err != nil {
			return s, errors.Join(fmt.Errorf("HTTP door (%sLISTEN): %w", EnvPrefix, err), s.admin.listener.Close())
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.adminAddr = s.admin.listener.Addr().String()
	if s.door != nil {
		w.addr = s.door.listener.Addr().String()
	}
	w.log.Info("worker listens", slog.String("door", w.addr), slog.String("admin", w.adminAddr), slog.Int("slots", w.cfg.Slots))
	return s, nil
}

// open listens. The idle time is longer than a load balancer's, which would otherwise send into a closed connection.
func (w *Worker) open(ctx context.Context, addr string, h http.Handler) (*server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &server{listener: listener, http: &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 75 * time.Second, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(w.log.Handler(), slog.LevelDebug),
	}}, nil
}

func (w *Worker) drainingSince() (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.drainedAt, !w.drainedAt.IsZero()
}

// state is what the worker as a whole is doing.
func (w *Worker) state() state {
	if _, ok := w.drainingSince(); ok {
		return stateDraining
	}
	select {
	case <-w.readied:
	default:
		return stateStarting
	}
	if w.slots.InUse() > 0 {
		return stateBusy
	}
	return stateIdle
}

func (w *Worker) gauges() gauges {
	status := func() queue.WorkerStatus {
		if w.queue == nil {
			return queue.WorkerStatus{}
		}
		return w.queue.Status()
	}
	g := gauges{
		slots: func() float64 { return float64(w.slots.Size()) },
		inUse: func() float64 { return float64(w.slots.InUse()) },
		state: w.state,
		lowest: func() time.Duration {
			if s := status(); s.Active > 0 {
				return s.LowestLock
			}
			return w.cfg.LockDuration
		},
		protected: func() float64 {
			if w.protect != nil && w.protect.Protected() {
				return 1
			}
			return 0
		},
	}
	if w.cfg.QueueEnabled {
		g.lastFetch = func() time.Time { return status().LastFetch }
	}
	return g
}
