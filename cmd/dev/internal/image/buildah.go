package image

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/posefleet/posefleet/cmd/dev/internal/proc"
)

// buildah runs without a daemon and without namespaces of its own: storage in a folder of ours by plain copies, isolation by chroot.
// That is slow and safe to throw away, and it works wherever root does.
func (b *Builder) buildah(args ...string) proc.Spec {
	return proc.Spec{
		Dir: b.Root,
		Env: []string{"BUILDAH_ISOLATION=chroot"},
		Args: append([]string{
			"buildah", "--root", filepath.Join(b.Work, "storage"), "--runroot", filepath.Join(b.Work, "run"), "--storage-driver", "vfs",
		}, args...),
	}
}

// out runs buildah and gives what it printed.
func (b *Builder) out(ctx context.Context, args ...string) (string, error) {
	out, err := proc.Output(ctx, b.buildah(args...))

	return strings.TrimSpace(out), err
}

// container is a working container with its file system mounted at root.
type container struct {
	name, root string
}

// from makes a working container of an image, or of nothing ("scratch").
func (b *Builder) from(ctx context.Context, image string) (*container, error) {
	name, err := b.out(ctx, "from", "--pull-never", image)
	if err != nil {
		return nil, err
	}

	root, err := b.out(ctx, "mount", name)
	if err != nil {
		b.remove(&container{name: name})

		return nil, err
	}

	return &container{name: name, root: root}, nil
}

// remove ends a working container. It runs after a cancellation too; what it leaves behind is below Work, and a later run is not
// disturbed by it.
func (b *Builder) remove(c *container) {
	_ = proc.Run(context.Background(), b.buildah("rm", c.name))
}

// commit makes an image of a container.
func (b *Builder) commit(ctx context.Context, c *container, tag string) error {
	return proc.Run(ctx, b.buildah("commit", "--format", "docker", c.name, tag))
}

// has reports whether the image is in our storage.
func (b *Builder) has(ctx context.Context, tag string) bool {
	return proc.Run(ctx, b.buildah("inspect", "--type", "image", tag)) == nil
}

// makeWork makes the folder for everything.
func (b *Builder) makeWork() error { return os.MkdirAll(b.Work, 0o755) }
