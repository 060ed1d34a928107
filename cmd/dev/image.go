package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/posefleet/posefleet/cmd/dev/internal/image"
	"github.com/posefleet/posefleet/internal/assets"
)

// image builds the image with the engine that is there.
func (t *tool) image(ctx context.Context, _ []string) error {
	return t.imageBuilder(ctx).Build(ctx)
}

// imageCheck builds the image from nothing but Debian's packages and runs the programs in it; with "built", those of the last build.
func (t *tool) imageCheck(ctx context.Context, args []string) error {
	if os.Getuid() != 0 {
		return errors.New("only root can make base images and enter them")
	}

	if err := t.setup.Image(ctx); err != nil {
		return err
	}

	if len(args) == 1 && args[0] == "built" {
		return t.imageBuilder(ctx).CheckBuilt(ctx)
	}

	return t.imageBuilder(ctx).Check(ctx)
}

// imageBuilder works in the cache: below the repository, ./... would look into the systems that are made there.
func (t *tool) imageBuilder(ctx context.Context) *image.Builder {
	return image.New(image.Config{
		Root: t.root, Work: filepath.Join(assets.CacheDir(), "image"), Version: t.version(ctx), Out: os.Stdout,
	})
}
