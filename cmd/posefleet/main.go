// Command posefleet runs the parts of a posefleet deployment: the worker, the control plane and the tools around
// them. It needs no cgo; the extraction itself is the program posefleet-extract.
package main

import "os"

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
