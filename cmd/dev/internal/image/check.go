package image

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/posefleet/posefleet/cmd/dev/internal/proc"
	"github.com/posefleet/posefleet/internal/assets"
)

const (
	// startTimeout is how long the worker in the image may take until its health check is good.
	startTimeout = 60 * time.Second
	// checkTag keeps the checked image apart from one that Build made in the same storage.
	checkTag = "posefleet-check:latest"
)

// Programs in the image.
const (
	posefleet = "/usr/local/bin/posefleet"
	extractor = "/usr/local/bin/posefleet-extract"
)

// Check builds the image on base images of its own making and then does what CheckBuilt does.
func (b *Builder) Check(ctx context.Context) error {
	if err := b.makeWork(); err != nil {
		return err
	}

	if err := b.bases(ctx); err != nil {
		return err
	}

	if err := b.buildCheck(ctx); err != nil {
		return err
	}

	return b.CheckBuilt(ctx)
}

// CheckBuilt runs the extractor, the worker and the health check from the image that Check built last, and prints its sizes.
func (b *Builder) CheckBuilt(ctx context.Context) error {
	if err := b.makeWork(); err != nil {
		return err
	}

	c, err := b.from(ctx, checkTag)
	if err != nil {
		return err
	}
	defer b.remove(c)

	for _, check := range []struct {
		name string
		run  func(context.Context, *container) error
	}{
		{"configuration", b.checkConfig},
		{"programs", b.checkPrograms},
		{"extraction", b.checkExtraction},
		{"worker", b.checkWorker},
		{"sizes", b.sizes},
	} {
		if err := check.run(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", check.name, err)
		}
	}

	return nil
}

func (b *Builder) buildCheck(ctx context.Context) error {
	flags, err := b.flags(ctx)
	if err != nil {
		return err
	}

	b.say("building …")

	start := time.Now()
	// One layer per stage: with plain copies, each further layer would cost a copy of the whole.
	args := append([]string{"bud", "--pull-never", "--layers=false", "--format", "docker", "-t", checkTag}, flags...)

	if err := proc.Show(ctx, b.buildah(append(args, ".")...)); err != nil {
		return err
	}

	b.say("built in %.0f s", time.Since(start).Seconds())

	return nil
}

// checkConfig looks at what an engine will do with the image.
func (b *Builder) checkConfig(ctx context.Context, _ *container) error {
	out, err := b.out(ctx, "inspect", "--type", "image", checkTag)
	if err != nil {
		return err
	}

	var image struct {
		Docker struct {
			Config struct {
				User        string
				Entrypoint  []string
				StopSignal  string
				Healthcheck struct{ Test []string }
			} `json:"config"`
		}
	}
	if err := json.Unmarshal([]byte(out), &image); err != nil {
		return err
	}

	c := image.Docker.Config
	if c.User == "" || strings.HasPrefix(c.User, "0") || strings.HasPrefix(c.User, "root") {
		return fmt.Errorf("runs as user %q", c.User)
	}

	// A shell in between would swallow the stop signal.
	if len(c.Entrypoint) != 1 || c.Entrypoint[0] != posefleet {
		return fmt.Errorf("entrypoint is %q", c.Entrypoint)
	}

	if len(c.Healthcheck.Test) < 2 || c.Healthcheck.Test[0] != "CMD" || c.StopSignal != "SIGTERM" {
		return fmt.Errorf("health check %q, stop signal %q", c.Healthcheck.Test, c.StopSignal)
	}

	return nil
}

func (b *Builder) checkPrograms(ctx context.Context, c *container) error {
	for _, args := range [][]string{
		{posefleet, "--version"}, {extractor, "--version"}, {"/usr/bin/ffmpeg", "-version"}, {"/usr/bin/ffprobe", "-version"},
	} {
		out, err := b.out(ctx, append([]string{"run", c.name, "--"}, args...)...)
		if err != nil {
			return err
		}

		first, _, _ := strings.Cut(out, "\n")
		b.say("%s: %s", args[0], first)
	}

	return nil
}

// checkExtraction runs the extractor on two seconds of the demo's clip, which also tries ffmpeg, the models and the inference library.
func (b *Builder) checkExtraction(ctx context.Context, c *container) error {
	clips := filepath.Dir(assets.DemoClip()) + ":/clips:ro"

	cut := []string{"/usr/bin/ffmpeg", "-v", "error", "-y", "-ss", "51", "-t", "2", "-i", "/clips/" + filepath.Base(assets.DemoClip()), "-c:v", "libx264", "/tmp/cut.mp4"}
	extract := []string{extractor, "/tmp/cut.mp4", "--model", "lite", "--engine", "onnxruntime", "-o", "/tmp/pose.json"}

	start := time.Now()

	for _, args := range [][]string{cut, extract} {
		if _, err := b.out(ctx, append([]string{"run", "-v", clips, c.name, "--"}, args...)...); err != nil {
			return err
		}
	}

	raw, err := b.out(ctx, "run", c.name, "--", "/bin/cat", "/tmp/pose.json")
	if err != nil {
		return err
	}

	frames, people, err := count([]byte(raw))
	if err != nil {
		return err
	}

	if frames == 0 || people == 0 {
		return fmt.Errorf("%d people in %d frames", people, frames)
	}

	b.say("extracted: %d frames, %d times a person, %.1f s", frames, people, time.Since(start).Seconds())

	return nil
}

// count is the number of frames in a pose document, and of people in all of them.
func count(raw []byte) (frames, people int, err error) {
	var doc struct {
		Clips []struct {
			Frames []struct{ People []json.RawMessage }
		}
		Frames []struct{ People []json.RawMessage }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return 0, 0, fmt.Errorf("pose document: %w", err)
	}

	all := doc.Frames
	for _, clip := range doc.Clips {
		all = append(all, clip.Frames...)
	}

	for _, f := range all {
		people += len(f.People)
	}

	return len(all), people, nil
}

// checkWorker starts the worker without a Redis and a control plane: it must live and wait, be healthy, and end by SIGTERM with status 0.
func (b *Builder) checkWorker(ctx context.Context, c *container) error {
	env, err := workerEnv()
	if err != nil {
		return err
	}

	run := []string{"run"}
	for _, v := range env {
		run = append(run, "--env", v)
	}

	// The command of the image, by its entrypoint.
	run = slices.Clip(append(run, c.name, "--"))

	ctx, cancel := context.WithTimeoutCause(ctx, 2*startTimeout, errors.New("the worker did not end"))
	defer cancel()

	ended := make(chan error, 1)
	// Ends with the worker, at the latest with ctx.
	go func() { ended <- proc.Run(ctx, b.buildah(append(run, posefleet, "worker")...)) }()

	start := time.Now()
	if err := b.awaitHealthy(ctx, append(run, posefleet, "healthcheck"), ended); err != nil {
		cancel()

		return err
	}

	b.say("worker healthy after %.1f s", time.Since(start).Seconds())

	if err := terminate(env[len(env)-1]); err != nil {
		cancel()

		return errors.Join(err, <-ended)
	}

	start = time.Now()

	if err := <-ended; err != nil {
		return fmt.Errorf("after SIGTERM: %w", err)
	}

	b.say("worker ended by SIGTERM after %.1f s", time.Since(start).Seconds())

	return nil
}

func (b *Builder) awaitHealthy(ctx context.Context, healthcheck []string, ended <-chan error) error {
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()

	for {
		_, err := b.out(ctx, healthcheck...)
		if err == nil {
			return nil
		}

		select {
		case ended := <-ended:
			return fmt.Errorf("worker ended at start: %w", errors.Join(ended, err))
		case <-deadline.C:
			return fmt.Errorf("worker not healthy after %v: %w", startTimeout, err)
		case <-time.After(time.Second):
		}
	}
}

// workerEnv is a valid configuration on free ports, the last variable of which no other worker has.
func workerEnv() ([]string, error) {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails

	vars := []string{
		"POSEFLEET_CONTROL_URL=http://127.0.0.1:9", // the discard port: nobody answers
		"POSEFLEET_REDIS_URL=redis://127.0.0.1:9",
		"POSEFLEET_WORKER_SECRET=whsec_" + base64.StdEncoding.EncodeToString(secret),
		"POSEFLEET_DOOR_SECRET=whsec_" + base64.StdEncoding.EncodeToString(secret),
		"POSEFLEET_STORAGE_HOSTS=127.0.0.1",
		"POSEFLEET_ALLOW_INSECURE=true",
		"POSEFLEET_TASK_PROTECTION=off",
	}

	for _, name := range []string{"POSEFLEET_LISTEN", "POSEFLEET_ADMIN_LISTEN"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // after both are known, so that they differ

		vars = append(vars, name+"="+l.Addr().String())
	}

	return vars, nil
}

// terminate sends SIGTERM to the worker that has this variable in its environment, as an engine would to the container's first process.
// Nothing else tells it from other workers on this machine: the root folder of a process in buildah's chroot has a name of the moment.
func terminate(variable string) error {
	procs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return err
	}

	for _, file := range procs {
		dir := filepath.Dir(file)

		// Processes come and go: what cannot be read is not ours.
		cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || string(cmdline) != posefleet+"\x00worker\x00" {
			continue
		}

		environ, err := os.ReadFile(file)
		if err != nil || !slices.Contains(strings.Split(string(environ), "\x00"), variable) {
			continue
		}

		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return err
		}

		return syscall.Kill(pid, syscall.SIGTERM)
	}

	return errors.New("the worker's process was not found")
}
