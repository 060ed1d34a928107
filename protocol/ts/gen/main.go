// Command gen writes the TypeScript package in protocol/ts from the JSON Schemas and from the constants of package
// protocol. Run it with
//
//	go generate ./protocol/...
//
// It needs node and the npm packages of internal/node. A test compares what it would write with what is committed.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen DIRECTORY (protocol/ts)")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1) //nolint:gocritic // stop has nothing to undo at the end of the process
	}
}

func run(ctx context.Context, dir string) error {
	files, err := generate(ctx, dir)
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}
