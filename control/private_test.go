package control_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Clips are people, and the database holds the key that signs the URLs of all of them: other users of the machine read none of it.
func TestOnlyTheOwnerReads(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.delivered(t, "an_1")
	database, _, _ := strings.Cut(strings.TrimPrefix(b.cfg.DatabaseURL, "sqlite:"), "?")
	files, err := filepath.Glob(database + "*")
	if err != nil || len(files) < 2 { // ours and the runs'
		t.Errorf("%q, %v", files, err)
	}
	for _, root := range append(files, strings.TrimPrefix(b.cfg.StorageURL, "file:")) {
		entries := 0
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			entries++
			info, err := d.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has %s", path, info.Mode())
			}

			return err
		})
		if err != nil || entries == 0 {
			t.Errorf("%s: %d entries, %v", root, entries, err)
		}
	}
}
