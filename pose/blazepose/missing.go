package blazepose

import (
	"errors"
	"io/fs"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/pose/infer"
)

// isMissing says whether an error means that a file is absent rather than wrong.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, assets.ErrUnlisted) || errors.Is(err, infer.ErrLibraryMissing)
}
