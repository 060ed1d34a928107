package pipeline_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/control/pipeline"
	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

// What the test tells its child.
const (
	childVar  = "PIPELINE_TEST_CHILD"
	killVar   = "PIPELINE_TEST_KILL"
	refuseVar = "PIPELINE_TEST_REFUSE"
	lookVar   = "PIPELINE_TEST_LOOK"
	goneVar   = "PIPELINE_TEST_GONE"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		os.Exit(runChild())
	}
	goleak.VerifyTestMain(m)
}

// runChild is a control plane as "posefleet control" runs it, which dies by SIGKILL in the place that the test names.
func runChild() int {
	env := map[string]string{}
	for _, line := range os.Environ() {
		name, value, _ := strings.Cut(line, "=")
		env[name] = value
	}
	cfg, err := control.LoadConfig(env)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)

		return 2
	}
	cfg.Point = func(place string) {
		if place == env[killVar] {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // no further
		}
	}
	if env[refuseVar] != "" {
		cfg.Precheck = func(context.Context, store.Analysis) error {
			return &pipeline.Refusal{Code: protocol.CodeInvalidMedia, Message: "not a clip"}
		}
	}
	if ms, err := strconv.Atoi(env[lookVar]); err == nil {
		cfg.RunLook = time.Duration(ms) * time.Millisecond
	}
	if ms, err := strconv.Atoi(env[goneVar]); err == nil {
		cfg.RunTakeover = time.Duration(ms) * time.Millisecond
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	s, err := control.New(ctx, cfg, log)
	if err == nil {
		err = s.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)

		return 1
	}

	return 0
}
