package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/posefleet/posefleet/cmd/dev/internal/proc"
	"github.com/posefleet/posefleet/internal/assets"
)

// clip takes the demo's clip out of its Debian package.
func (s *Setup) clip(ctx context.Context) error {
	path := assets.DemoClip()
	if sum, err := assets.Sum(path); err == nil && sum == clipSHA256 {
		return nil
	}

	return s.step("the demo's clip", func() error {
		if os.Getuid() == 0 {
			if err := s.aptUpdate(ctx); err != nil {
				return err
			}
		}

		tmp, err := os.MkdirTemp(assets.CacheDir(), "tmp-*")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)

		if err := fetchClip(ctx, tmp); err != nil {
			return err
		}

		half := filepath.Join(tmp, clipMember)
		if err := verify(half, clipMember, clipSHA256); err != nil {
			return err
		}

		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Rename(half, path))
	})
}

// fetchClip downloads the package into dir and unpacks the clip there. apt has checked the package's signature and sum.
func fetchClip(ctx context.Context, dir string) error {
	download := proc.Spec{Dir: dir, Args: []string{"apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", clipPackage}}
	if err := proc.Run(ctx, download); err != nil {
		return fmt.Errorf("cannot fetch the demo's clip: %w", err)
	}

	found, err := filepath.Glob(filepath.Join(dir, clipPackage+"_*.deb"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("apt-get download %s left %d packages", clipPackage, len(found))
	}

	return proc.Pipe(ctx,
		proc.Spec{Args: []string{"dpkg-deb", "--fsys-tarfile", found[0]}},
		proc.Spec{Args: []string{"tar", "-x", "-C", dir, clipMember}},
	)
}
