// Command server is an S3 server for tests: versitygw, which checks signatures, expiry, lengths and conditions as a real store does.
// It is a program and a module of its own: it changes its working folder, keeps one instance per process, and pulls in far more
// modules than posefleet needs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

// maxParts is what S3 itself allows in one multipart upload; versitygw takes 0 literally.
const maxParts = 10_000

// maxConcurrent bounds connections and requests; more than any test opens.
const maxConcurrent = 4096

func main() {
	addr := flag.String("addr", "", "host:port to listen on")
	data := flag.String("data", "", "existing folder for the objects; its subfolders are the buckets")
	metadata := flag.String("meta", "", "existing folder for the metadata of the objects")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	if err := run(ctx, *addr, *data, *metadata); err != nil {
		fmt.Fprintln(os.Stderr, "s3 test server:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. The credentials come by environment, so that they are on no command line.
func run(ctx context.Context, addr, data, metadata string) error {
	// Attributes beside the files, not in extended attributes: temporary file systems do not have them everywhere.
	sidecar, err := meta.NewSideCar(metadata)
	if err != nil {
		return fmt.Errorf("metadata folder: %w", err)
	}

	store, err := posix.New(data, sidecar, posix.PosixOpts{SideCarDir: metadata})
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	defer store.Shutdown()

	return embedgw.RunVersityGW(ctx, store, &embedgw.Config{
		RootUserAccess:    os.Getenv("AWS_ACCESS_KEY_ID"),
		RootUserSecret:    os.Getenv("AWS_SECRET_ACCESS_KEY"),
		Region:            os.Getenv("AWS_REGION"),
		Ports:             []string{addr},
		MaxConnections:    maxConcurrent,
		MaxRequests:       maxConcurrent,
		MultipartMaxParts: maxParts,
		HealthPath:        "/healthz",
		KeepAlive:         true,
		Quiet:             true,
	})
}
