package control

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posefleet/posefleet/control/fleet"
	"github.com/posefleet/posefleet/control/page"
	"github.com/posefleet/posefleet/control/pipeline"
	"github.com/posefleet/posefleet/control/storage"
	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

const (
	// shutdownGrace is how long running requests may go on after the end was asked for.
	shutdownGrace = 15 * time.Second
	// signingKeyName is the secret in the store that signs URLs of a file storage.
	signingKeyName = "storage_url_key"
)

// Server is the control plane. It is made by New and runs once.
type Server struct {
	cfg       Config
	log       *slog.Logger
	hold      io.Closer
	store     store.Store
	storage   storage.Storage
	queue     *queue.Queue
	hints     *queue.Queue
	verifier  *webhook.Verifier
	listener  net.Listener
	base      string
	operators *operators
	page      *page.Page
	hub       *hub
	runs      *pipeline.Pipeline
	relay     *relay
	recaller  *recaller
	keeper    *keeper
	workers   *fleet.Reconciler
	census    *census
	metrics   *metrics
	http      *http.Server
	// relayNow is the relay once it is there.
	relayNow atomic.Pointer[relay]
	// stopping is closed when the end was asked for, so that event streams end.
	stopping chan struct{}
	close    sync.Once
}

// New opens the database, the storage and the listener. It does not need Redis. Whoever calls New calls Run or Close.
func New(ctx context.Context, cfg Config, log *slog.Logger) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	cfg.setDefaults()
	s := &Server{
		cfg: cfg, log: cmp.Or(log, slog.New(slog.DiscardHandler)), hub: newHub(), metrics: newMetrics(), stopping: make(chan struct{}),
		verifier: webhook.NewVerifier(cfg.WorkerSecrets),
	}
	s.verifier.Now = cfg.Now
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("control plane: %w", err), s.Close())
	}

	return s, nil
}

// open opens what the server holds, in the order in which the parts need each other.
func (s *Server) open(ctx context.Context) error {
	var err error
	// Before the listener: who waits here answers nobody, and one that follows another on the same address finds it free.
	if s.hold, err = holdDatabase(ctx, s.cfg.DatabaseURL, s.log); err != nil {
		return of("DATABASE_URL", err)
	}
	if s.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.Listen); err != nil {
		return of("LISTEN", err)
	}
	public, err := s.cfg.publicURL(s.listener.Addr())
	if err != nil {
		return err
	}
	s.base = strings.TrimSuffix(public.String(), "/")
	s.operators = newOperators(s.listener.Addr(), public, s.cfg.APIToken, s.cfg.ReadToken)
	if s.store, err = store.Open(ctx, s.cfg.DatabaseURL, store.Options{Now: s.cfg.Now, Logger: s.log}); err != nil {
		return of("DATABASE_URL", err)
	}
	key, err := s.store.Secret(ctx, signingKeyName, func() []byte {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails

		return key
	})
	if err != nil {
		return err
	}
	s.storage, err = storage.Open(ctx, s.cfg.StorageURL, storage.Options{BaseURL: s.base, SigningKey: key, Now: s.cfg.Now, Logger: s.log})
	if err != nil {
		return of("STORAGE_URL", err)
	}
	s.queue, err = queue.NewQueue(queue.Options{RedisURL: s.cfg.RedisURL, Prefix: s.cfg.Prefix, Name: s.cfg.Queue, Logger: s.log})
	if err != nil {
		return err
	}
	s.hints, err = queue.NewQueue(queue.Options{
		RedisURL: s.cfg.RedisURL, Prefix: protocol.HintPrefix(s.cfg.Prefix, s.cfg.Queue), Name: protocol.HintQueue, Logger: s.log,
	})
	if err != nil {
		return err
	}
	if err := s.openFleet(ctx); err != nil {
		return err
	}
	queued := newDispatcher(s.store, s.queue, &s.cfg)
	if s.runs, err = s.openRuns(ctx, queued); err != nil {
		return of("DATABASE_URL", err)
	}
	s.assemble(queued)

	return nil
}

// of names the variable that says where something is that could not be opened.
func of(variable string, err error) error { return fmt.Errorf("POSEFLEET_%s: %w", variable, err) }

// openRuns takes up the runs that the last end of the process left.
func (s *Server) openRuns(ctx context.Context, queued *dispatcher) (*pipeline.Pipeline, error) {
	rollout, err := pipeline.ParseRollout(s.cfg.Dispatch)
	if err != nil {
		return nil, err
	}

	return pipeline.Open(ctx, pipeline.Config{
		DatabaseURL: s.cfg.DatabaseURL, Store: s.store, Rollout: rollout, Limit: s.cfg.RunTimeout, Now: s.cfg.Now, Logger: s.log,
		Waker: s.cfg.Waker, Precheck: s.cfg.Precheck, Report: s.cfg.Report, Alive: queued.alive, Look: s.cfg.RunLook, Takeover: s.cfg.RunTakeover, Point: s.cfg.Point,
		OnWrite: func(id string) {
			s.hub.notify(id)
			s.wakeRelay()
		},
	})
}

// wakeRelay tells the relay that there may be work. Runs that are taken up at the start may be faster than the relay is made.
func (s *Server) wakeRelay() {
	if r := s.relayNow.Load(); r != nil {
		r.wakeUp()
	}
}

// assemble makes the parts that need nothing from outside.
func (s *Server) assemble(queued *dispatcher) {
	door := newDoor(s.store, &s.cfg, queued.dispatch, s.log)
	s.recaller = newRecaller(s.store, s.queue, s.hints, door, s.log)
	s.relay = newRelay(s.store, destinations{
		queue: queued, door: door, notifier: newNotifier(&s.cfg, s.metrics.notices, s.log), runs: s.runs,
	}, &s.cfg, s.log)
	s.relayNow.Store(s.relay)
	s.keeper = &keeper{store: s.store, now: s.cfg.Now, relay: s.relay, log: s.log}
	s.census = &census{queue: s.queue, store: s.store, now: s.cfg.Now, changed: func() { s.hub.notify(fleetTopic) }, log: s.log}
	s.metrics.registry.MustRegister(newStateCollector(s.store, s.census, s.cfg.Now))
	s.page = page.New(pageSource{s}, s.log)
	s.http = &http.Server{
		Handler:           s.logged(lingering(problems(s.routes()))),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      30 * time.Second,
		// Longer than the idle time of load balancers, which would otherwise send requests into a closing connection.
		IdleTimeout:    75 * time.Second,
		MaxHeaderBytes: 64 << 10,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// Addr is where the server listens, known from New on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL is the base of the URLs that the server hands out.
func (s *Server) URL() string { return s.base }

// Run serves until ctx ends, lets running requests finish, and gives everything back. It returns nil when it ended
// because ctx did.
func (s *Server) Run(ctx context.Context) error {
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	var parts sync.WaitGroup
	parts.Go(func() { s.relay.Run(work) })
	parts.Go(func() { s.recaller.Run(work) })
	parts.Go(func() { s.keeper.Run(work) })
	parts.Go(func() { s.census.Run(work) })
	lost := make(chan error, 1)
	parts.Go(func() { lost <- s.runs.Run(work) })
	served := make(chan error, 1)
	parts.Go(func() { served <- s.http.Serve(s.listener) })
	endFleet := s.runFleet(ctx)
	s.announce(ctx)

	var err error
	select {
	case err = <-served:
	case err = <-lost:
	case <-ctx.Done():
	}
	s.log.InfoContext(ctx, "control plane is stopping", slog.String("because", cmp.Or(because(ctx), "a part of it ended")))
	endFleet() // before the listener: workers of this machine may deliver what they have
	close(s.stopping)
	err = errors.Join(err, s.shutdown(ctx))
	stopWork()
	parts.Wait()
	err = errors.Join(err, s.Close())
	s.log.InfoContext(ctx, "control plane has stopped")

	return err
}

// because is why ctx ended, or "".
func because(ctx context.Context) string {
	if cause := context.Cause(ctx); cause != nil {
		return cause.Error()
	}

	return ""
}

// announce says where the server is and what it will not do.
func (s *Server) announce(ctx context.Context) {
	open := s.operators.loopback || !s.operators.closed()
	s.log.InfoContext(ctx, "control plane listens", slog.String("addr", s.Addr()), slog.String("public_url", s.base),
		slog.Any("worker_secrets", webhook.Fingerprints(s.cfg.WorkerSecrets)), slog.Bool("operator_api", open))
	for _, text := range s.cfg.warnings() {
		s.log.WarnContext(ctx, "strange settings", slog.String("what", text))
	}
	if !open {
		s.log.WarnContext(ctx, "operator API and page are off: set POSEFLEET_API_TOKEN or listen on 127.0.0.1")
	}
	if s.operators.exposed() {
		s.log.WarnContext(ctx, "everyone who comes by POSEFLEET_PUBLIC_URL may operate: set POSEFLEET_API_TOKEN")
	}
}

// shutdown lets running requests finish for a while.
func (s *Server) shutdown(ctx context.Context) error {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	err := s.http.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		// The rest is cut off: transfers can be begun again, and messages are sent again.
		err = s.http.Close()
	}

	return err
}

// Close gives everything back that New opened. Run does so by itself.
func (s *Server) Close() error {
	var errs []error
	s.close.Do(func() {
		if s.listener != nil {
			if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
		if s.runs != nil {
			errs = append(errs, s.runs.Close())
		}
		if s.queue != nil {
			errs = append(errs, s.queue.Close())
		}
		if s.hints != nil {
			errs = append(errs, s.hints.Close())
		}
		if s.storage != nil {
			errs = append(errs, s.storage.Close())
		}
		if s.store != nil {
			errs = append(errs, s.store.Close())
		}
		if s.hold != nil {
			errs = append(errs, s.hold.Close())
		}
	})

	return errors.Join(errs...)
}
