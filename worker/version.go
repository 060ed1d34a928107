package worker

import "github.com/posefleet/posefleet/internal/version"

// Version names a build. Revision is empty if the build does not know it.
type Version struct {
	Version  string
	Revision string
}

// BuildVersion says what was built, and from which state of the sources.
func BuildVersion() Version {
	return Version{Version: version.String(), Revision: version.Revision()}
}
