package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/posefleet/posefleet/cmd/dev/internal/proc"
	"github.com/posefleet/posefleet/cmd/dev/internal/setup"
)

// eval runs the evaluation of pose/eval; without flags of the caller's it writes docs/pose-eval.json and .md.
func (t *tool) eval(ctx context.Context, args []string) error {
	if err := t.setup.Run(ctx, setup.ScopeTest); err != nil {
		return err
	}

	if len(args) == 0 {
		args = []string{"-json", filepath.Join(t.root, "docs", "pose-eval.json"), "-table", filepath.Join(t.root, "docs", "pose-eval.md")}
	}

	var env []string
	if os.Getenv("POSEFLEET_MEDIA") == "" {
		env = append(env, "POSEFLEET_MEDIA="+filepath.Join(t.root, "..", "shared", "media"))
	}

	return proc.Show(ctx, proc.Spec{Dir: t.root, Env: append(cgoEnv(), env...), Args: append([]string{"go", "run", "./pose/eval/poseeval"}, args...)})
}
