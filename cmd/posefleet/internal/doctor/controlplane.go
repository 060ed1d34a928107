package doctor

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/control/storage"
	"github.com/posefleet/posefleet/queue"
)

// Control is a control plane's deployment.
type Control struct {
	// Config is what control.LoadConfig made of the environment, also if it found Faults.
	Config control.Config
	Faults error
	// Timeout bounds each area, 0: DefaultTimeout.
	Timeout time.Duration
}

// Examine looks at everything that a control plane needs, and at the control plane itself where workers are told to reach it.
func (c Control) Examine(ctx context.Context, report func(Finding)) Summary {
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)

	return run(ctx, c.areas(), report)
}

func (c Control) areas() []area {
	cfg := c.Config
	config := area{"configuration", c.Timeout, func(context.Context) []Finding {
		return configuration(c.Faults, "a control plane", good("configuration", "complete: queue %s:%s, workers reach it at %s", cfg.Prefix, cfg.Queue, c.public()))
	}}

	return append([]area{config}, sound(c.Faults, []conditional{
		{area{"redis", c.Timeout + searchTime, func(ctx context.Context) []Finding {
			return examineRedis(ctx, queue.Options{RedisURL: cfg.RedisURL, Prefix: cfg.Prefix, Name: cfg.Queue})
		}}, "REDIS_URL PREFIX QUEUE"},
		{area{"worker secret", c.Timeout, func(context.Context) []Finding { return examineSecrets(cfg.WorkerSecrets, nil) }}, "WORKER_SECRET"},
		{area{"control plane", c.Timeout, func(ctx context.Context) []Finding {
			return examineControl(ctx, c.public(), "POSEFLEET_PUBLIC_URL or POSEFLEET_LISTEN", cfg.WorkerSecrets)
		}}, "PUBLIC_URL LISTEN WORKER_SECRET"},
		{area{"database", c.Timeout, func(ctx context.Context) []Finding { return []Finding{examineDatabase(ctx, cfg.DatabaseURL)} }}, "DATABASE_URL"},
		{area{"storage", c.Timeout, func(ctx context.Context) []Finding { return []Finding{examineStorage(ctx, cfg.StorageURL)} }}, "STORAGE_URL"},
	})...)
}

// public is where workers are told to reach the control plane.
func (c Control) public() string {
	if c.Config.PublicURL != "" {
		return c.Config.PublicURL
	}

	host, port, err := net.SplitHostPort(c.Config.Listen)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}

	return "http://" + net.JoinHostPort(host, port)
}

// examineDatabase connects to Postgres, or looks whether SQLite's file can be written. It makes and migrates nothing.
func examineDatabase(ctx context.Context, databaseURL string) Finding {
	const name = "database"

	if path, ok := strings.CutPrefix(databaseURL, "sqlite:"); ok {
		path, _, _ = strings.Cut(path, "?")

		place, err := filepath.Abs(filepath.Dir(path))
		if err == nil {
			err = tryWrite(place) // WAL needs files beside it
		}

		if _, statErr := os.Stat(path); err == nil && statErr == nil {
			err = openable(path)
		}

		if err != nil {
			return failure(name, "give the user of this process a writable folder, by POSEFLEET_DATABASE_URL", "%s can't be written: %s", path, plainPathError(err))
		}

		return good(name, "SQLite's %s can be written; it is for one control plane at a time", path)
	}

	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return failure(name, "start Postgres, or correct POSEFLEET_DATABASE_URL, or let the network through", "Postgres can't be used: %s", databaseReason(err))
	}

	var readOnly string // also on a standby

	err = conn.QueryRow(ctx, "SHOW transaction_read_only").Scan(&readOnly)
	closed := conn.Close(context.WithoutCancel(ctx))

	switch {
	case err != nil:
		return failure(name, "look at Postgres' log", "Postgres does not answer: %s", databaseReason(errors.Join(err, closed)))
	case readOnly == "on":
		return failure(name, "give the address of the primary", "Postgres is read-only")
	}

	return good(name, "Postgres answers")
}

// databaseReason leaves out what the driver tells of the address, which may say more than it should.
func databaseReason(err error) string {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}

	return reason(err)
}

func openable(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}

	return f.Close()
}

// examineStorage asks a bucket for an object that is not there; a folder only has to be writable.
func examineStorage(ctx context.Context, storageURL string) Finding {
	const name = "storage"

	if dir, ok := strings.CutPrefix(storageURL, "file:"); ok {
		f := examineWorkDir(strings.TrimPrefix(dir, "//"), 1, leastFree)[0]
		f.Name = name

		if f.Level != OK {
			f.Mend = "give the user of this process a writable folder with room, by POSEFLEET_STORAGE_URL"
		}

		return f
	}

	const mend = "correct POSEFLEET_STORAGE_URL (bucket, endpoint, region), or let the role read it (s3:GetObject, s3:PutObject, s3:ListBucket)"

	s, err := storage.Open(ctx, storageURL, storage.Options{})
	if err != nil {
		return failure(name, mend, "can't be opened: %s", reason(err))
	}
	defer s.Close()

	if _, err := s.Stat(ctx, probeJob+"/nothing"); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return failure(name, mend, "the bucket refuses: %s", reason(err))
	}

	return good(name, "the bucket answers")
}
