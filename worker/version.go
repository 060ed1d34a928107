package worker

import (
	"runtime/debug"

	"github.com/posefleet/posefleet/internal/version"
)

// Version names a build. Revision is empty if the build does not know it.
type Version struct {
	Version  string
	Revision string
}

// BuildVersion says what was built, and from which state of the sources.
func BuildVersion() Version {
	v := Version{Version: version.String()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
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
	if v.Revision != "" {
		v.Revision += dirty
	}
	return v
}
