package extract

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// What goes wrong with a spool is told to whoever asked for the analysis: the cause, and none of this machine's folders.
func TestSpoolFaultNamesNoFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gone")
	_, err := newSpool(dir)
	if !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), filepath.Dir(dir)) {
		t.Errorf("%v", err)
	}
}
