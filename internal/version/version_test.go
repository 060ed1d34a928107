package version_test

import (
	"testing"

	"github.com/posefleet/posefleet/internal/version"
)

func TestNeverEmpty(t *testing.T) {
	t.Parallel()

	if version.String() == "" {
		t.Fatal("a program without a version cannot be told from another one in a log")
	}
}
