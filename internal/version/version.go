// Package version says what was built.
package version

import (
	"runtime/debug"
	"strings"
)

// stamp is set by the linker (cmd/dev does it).
var stamp string

// String is the version of the program: what the build stamped into it, else what the go command knows about it, else "dev".
func String() string {
	if stamp != "" {
		return stamp
	}

	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		return info.Main.Version
	}

	return "dev"
}
