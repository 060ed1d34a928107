package worker

import (
	"runtime/debug"
	"strings"
)

// Version names a build.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
}

// BuildVersion reads what the Go toolchain wrote into the program; stamped, if not empty, is the version that the
// linker set.
func BuildVersion(stamped string) Version {
	v := Version{Version: stamped, Revision: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if v.Version == "" {
		v.Version = strings.Trim(info.Main.Version, "()")
	}
	dirty := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v.Revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	v.Revision += dirty
	return v
}
