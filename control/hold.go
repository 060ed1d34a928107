package control

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/posefleet/posefleet/internal/envconfig"
)

// holdSuffix is added to the path of the SQLite file. SQLite's own locks are for moments; this one is for as long as the process lives.
const holdSuffix = "-control"

// holdDatabase makes this process the only control plane on a SQLite file, before anything in it is changed: runs, outbox and URLs of two would
// be each other's. On Postgres there may be several. The kernel lets go when the process ends, however it does.
func holdDatabase(databaseURL string) (io.Closer, error) {
	path, ok := strings.CutPrefix(databaseURL, "sqlite:")
	if !ok {
		return io.NopCloser(nil), nil
	}
	path, _, _ = strings.Cut(path, "?")
	f, err := os.OpenFile(path+holdSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		other, _ := io.ReadAll(io.LimitReader(f, 20)) // only for the error's text
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = envconfig.Fault("DATABASE_URL", "is in use by another control plane (process %s): SQLite is for one, Postgres for several",
				strings.TrimSpace(string(other)))
		}

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
