package main

import "fmt"

// versionCmd is "posefleet version".
type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(h *host) error {
	_, err := fmt.Fprintln(h.stdout, versionLine())
	return err
}
