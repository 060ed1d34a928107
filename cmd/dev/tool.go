package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/posefleet/posefleet/cmd/dev/internal/proc"
	"github.com/posefleet/posefleet/cmd/dev/internal/setup"
)

// module is how the repository's root is told from any other folder.
const module = "module github.com/posefleet/posefleet\n"

// tool is the state that all commands share.
type tool struct {
	root  string // the repository
	setup *setup.Setup
}

func newTool() (*tool, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}

	return &tool{root: root, setup: setup.New(root, os.Stdout)}, nil
}

// findRoot goes up from the working folder to posefleet's go.mod.
func findRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}

	for dir := start; ; dir = filepath.Dir(dir) {
		if raw, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && strings.HasPrefix(string(raw), module) {
			return dir, nil
		}

		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not in the repository of posefleet", start)
		}
	}
}

func (t *tool) bin(name string) string { return filepath.Join(t.root, "build", "bin", name) }

func (t *tool) setupAll(ctx context.Context, _ []string) error {
	if err := t.setup.Run(ctx, setup.ScopeTest); err != nil {
		return err
	}

	if t.setup.Idle() {
		fmt.Println("setup: all is there")
	}

	return nil
}

func (t *tool) assets(ctx context.Context, args []string) error {
	const noFallback = "onnxruntime"

	switch {
	case len(args) == 1:
		return t.setup.Assets(ctx, args[0], setup.FormsAll)
	case len(args) == 2 && args[1] == noFallback:
		return t.setup.Assets(ctx, args[0], setup.FormsONNXRuntime)
	default:
		return errors.New("give a directory, and " + noFallback + " to leave out the models for OpenCV")
	}
}

// demo runs the main job: a clip goes in as a claim-check job, a signed pose result comes out.
func (t *tool) demo(ctx context.Context, args []string) error {
	if err := t.setup.Run(ctx, setup.ScopeDemo); err != nil {
		return err
	}

	if err := t.compile(ctx); err != nil {
		return err
	}

	return proc.Show(ctx, proc.Spec{Dir: t.root, Args: append([]string{t.bin("posefleet"), "demo", "--once"}, args...)})
}

// exitCode is the status with which a program ended by itself; -1 for any other error.
func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}

	return -1
}
