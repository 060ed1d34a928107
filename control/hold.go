package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/posefleet/posefleet/internal/envconfig"
)

// holdSuffix is added to the path of the SQLite file. SQLite's own locks are for moments; this one is for as long as the process lives.
const holdSuffix = "-control"

const (
	// holdPatience is how long a process waits for the one before it, as in a deploy that starts the new one first.
	holdPatience = 2 * time.Minute
	holdPoll     = 100 * time.Millisecond
)

// holdDatabase makes this process the only control plane on a SQLite file, before anything in it is changed: runs, outbox and URLs of two would
// be each other's. One that comes while the former still ends waits for it. On Postgres there may be several. The kernel lets go when the
// process ends, however it does.
func holdDatabase(ctx context.Context, databaseURL string, log *slog.Logger) (io.Closer, error) {
	path, ok := strings.CutPrefix(databaseURL, "sqlite:")
	if !ok {
		return io.NopCloser(nil), nil
	}
	path, _, _ = strings.Cut(path, "?")
	if real, err := filepath.EvalSymlinks(path); err == nil { // one file has one holder, whatever it is called
		path = real
	}
	f, err := os.OpenFile(path+holdSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := hold(ctx, f, log); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(fmt.Errorf("open database: %w", err), f.Close())
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("open database: %w", err), f.Close())
	}

	return f, nil
}

// hold waits until the file is ours, or says whose it is.
func hold(ctx context.Context, f *os.File, log *slog.Logger) error {
	patience := time.NewTimer(holdPatience)
	defer patience.Stop()
	poll := time.NewTicker(holdPoll)
	defer poll.Stop()
	for told := false; ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("hold database: %w", err)
		}
		other := holder(f)
		if !told {
			told = true
			log.WarnContext(ctx, "database is in use by another control plane: this one waits for its end, since SQLite is for one",
				slog.String("process", other), slog.Int64("at_most_ms", holdPatience.Milliseconds()))
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the control plane of process %s to end: %w", other, context.Cause(ctx))
		case <-patience.C:
			return envconfig.Fault("DATABASE_URL", "is in use by another control plane (process %s): SQLite is for one, Postgres for several", other)
		}
	}
}

// holder is the process id that the file's holder has written, for people.
func holder(f *os.File) string {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0) // only for a text

	return strings.TrimSpace(string(b[:n]))
}
