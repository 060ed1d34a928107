// Command posefleet runs the parts of a posefleet deployment: the worker, the control plane and the tools around
// them. It needs no cgo; the extraction itself is the program posefleet-extract.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
