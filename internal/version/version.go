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

// Revision is the state of the sources that was built, with "-dirty" behind it if that was not as committed; "" if the build does not know it.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}

	revision, dirty := "", ""

	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}

	if revision == "" {
		return ""
	}

	return revision + dirty
}
