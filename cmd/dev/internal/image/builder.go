// Package image builds posefleet's container image: with an engine where there is one, and from nothing but Debian's packages where
// there is none, to prove that the Dockerfile works and that the programs run from what it makes.
package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/posefleet/posefleet/cmd/dev/internal/proc"
)

// Tag is the name of the image.
const Tag = "posefleet:latest"

// Config says what to build where.
type Config struct {
	Root    string    // the repository
	Work    string    // folder for storage, base images and what is checked; kept between runs
	Version string    // stamped into the programs
	Out     io.Writer // progress for people
}

// Builder builds images.
type Builder struct{ Config }

// New makes a builder.
func New(c Config) *Builder { return &Builder{Config: c} }

// Build builds the image with docker or, where there is none, buildah.
func (b *Builder) Build(ctx context.Context) error {
	flags, err := b.flags(ctx)
	if err != nil {
		return err
	}

	switch {
	case proc.Found("docker"):
		args := append([]string{"docker", "build", "-t", Tag}, flags...)

		return proc.Show(ctx, proc.Spec{Dir: b.Root, Env: []string{"DOCKER_BUILDKIT=1"}, Args: append(args, ".")})
	case proc.Found("buildah"):
		// The health check is no part of the OCI format.
		args := append([]string{"buildah", "bud", "--format", "docker", "-t", Tag}, flags...)

		return proc.Show(ctx, proc.Spec{Dir: b.Root, Args: append(args, ".")})
	default:
		return errors.New("neither docker nor buildah is installed")
	}
}

// flags hand this machine's ways to the outside on to the build: Go's proxy, npm's registry, HTTP proxies. None of them is written into
// the image: arguments of the build stage end with it, and the secret is never in a layer.
func (b *Builder) flags(ctx context.Context) ([]string, error) {
	flags := []string{"--build-arg", "POSEFLEET_VERSION=" + b.Version}

	goEnv, err := proc.Output(ctx, proc.Spec{Dir: b.Root, Args: []string{"go", "env", "-json", "GOPROXY", "GOSUMDB"}})
	if err != nil {
		return nil, err
	}

	var vars map[string]string
	if err := json.Unmarshal([]byte(goEnv), &vars); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}

	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"} {
		vars[name] = os.Getenv(name)
	}

	for name, value := range vars {
		if value != "" {
			flags = append(flags, "--build-arg", name+"="+value)
		}
	}

	secret, err := b.npmrc(ctx)
	if err != nil {
		return nil, err
	}

	return append(flags, "--secret", "id=npmrc,src="+secret), nil
}

// npmrc writes npm's configuration for the build: the user's own, and the registry that npm uses here, wherever that is configured.
func (b *Builder) npmrc(ctx context.Context) (string, error) {
	if err := os.MkdirAll(b.Work, 0o755); err != nil {
		return "", err
	}

	var lines []byte

	if home, err := os.UserHomeDir(); err == nil {
		raw, err := os.ReadFile(filepath.Join(home, ".npmrc"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}

		lines = append(raw, '\n')
	}

	if proc.Found("npm") {
		registry, err := proc.Output(ctx, proc.Spec{Dir: b.Root, Args: []string{"npm", "config", "get", "registry"}})
		if err != nil {
			return "", err
		}

		lines = append(lines, "registry="+strings.TrimSpace(registry)+"\n"...)
	}

	path := filepath.Join(b.Work, "npmrc")

	// It may hold a token.
	return path, os.WriteFile(path, lines, 0o600)
}

// say reports progress.
func (b *Builder) say(format string, args ...any) { fmt.Fprintf(b.Out, "image: "+format+"\n", args...) }
