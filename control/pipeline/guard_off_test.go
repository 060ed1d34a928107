//go:build unguarded

package pipeline_test

import (
	"path/filepath"
	"testing"

	"github.com/posefleet/posefleet/internal/redistest"
)

// With the guard of the stages taken out, a process that dies between an effect and its being kept has it twice. TestKill is what it is for.
func TestNoGuardHasEffectsTwice(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	for step, event := range map[string]string{"dispatch": "dispatched", "analysing": "analysing"} {
		k := &killing{scene: scenes()[0], place: step + ":done"}
		k.twice = event
		k.run(t, redis, "sqlite:"+filepath.Join(t.TempDir(), "test.db"))
	}
}
