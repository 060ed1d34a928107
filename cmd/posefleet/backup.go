package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/control/store"
)

// backupCmd is "posefleet backup PATH".
type backupCmd struct {
	Path string `arg:"" help:"Where to; there must be nothing."`
	kong.Plugins
	flags *variables
}

func newBackupCmd() backupCmd {
	list := slices.DeleteFunc(control.Variables(), func(v control.Variable) bool { return v.Flag() != "database-url" })
	v := newVariables(list)
	return backupCmd{Plugins: v.plugin(), flags: v}
}

// Help is shown below the usage line.
func (backupCmd) Help() string {
	return "Copies the control plane's SQLite database while it is in use, and checks the copy. docs/store.md tells how to go back to it, " +
		"and what Postgres has instead."
}

// Run writes the backup.
func (c *backupCmd) Run(h *host) error {
	v := c.flags.list[0]
	url := cmp.Or(c.flags.over(h.environ)[v.Name], v.Default)
	n, err := store.Backup(h.ctx, url, c.Path)
	if errors.Is(err, store.ErrNotSQLite) {
		return &usageError{err: err}
	}
	if err != nil {
		return fmt.Errorf("%w (%s)", err, c.flags.name(v.Name+" is "+url))
	}
	_, err = fmt.Fprintf(h.stdout, "%s: %d bytes\n", c.Path, n)
	return err
}
