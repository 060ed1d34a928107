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

// imageCheck builds the image from nothing but Debian's packages and runs the programs in it.
func (t *tool) imageCheck(ctx context.Context, _ []string) error {
	if os.Getuid() != 0 {
		return errors.New("only root can make base images and enter them")
	}

	if err := t.setup.Image(ctx); err != nil {
		return err
	}

	return t.imageBuilder(ctx).Check(ctx)
}

// imageBuilder works in the cache: below the repository, ./... would look into the systems that are made there.
func (t *tool) imageBuilder(ctx context.Context) *image.Builder {
	return image.New(image.Config{
		Root: t.root, Work: filepath.Join(assets.CacheDir(), "image"), Version: t.version(ctx), Out: os.Stdout,
	})
}
