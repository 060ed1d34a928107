package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// leastFree is the space below which not even a short clip is safe, in bytes.
const leastFree = 256 << 20

// examineWorkDir writes a file where the worker will, and looks at the space. largest is the largest input of one analysis in bytes.
func examineWorkDir(dir string, slots int, largest int64) []Finding {
	const name = "work dir"

	place, err := nearest(dir)
	if err == nil {
		err = tryWrite(place)
	}

	if err != nil {
		return []Finding{failure(name, "give the user of this process a writable folder by POSEFLEET_WORK_DIR", "%s can't be written: %s", dir, plainPathError(err))}
	}

	var st syscall.Statfs_t
	if err := syscall.Statfs(place, &st); err != nil {
		return []Finding{warning(name, "", "the free space of %s is not known: %s", dir, err)}
	}

	free := int64(st.Bavail) * st.Bsize
	told := fmt.Sprintf("%s is writable, %s free", dir, bytesText(free))

	if place != dir {
		told = fmt.Sprintf("%s will be made, %s free", dir, bytesText(free))
	}

	mend := "give it a larger disk, or lower POSEFLEET_SLOTS or POSEFLEET_MAX_INPUT_BYTES"

	switch need := int64(slots) * largest; {
	case free < leastFree:
		return []Finding{failure(name, mend, "%s", told)}
	case free < need:
		return []Finding{warning(name, mend, "%s, but %s of the largest size need %s", told, number(int64(slots), "analysis", "analyses at once"), bytesText(need))}
	}

	return []Finding{good(name, "%s", told)}
}

// nearest is dir, or if it is not there yet the folder above in which it will be made.
func nearest(dir string) (string, error) {
	for {
		info, err := os.Stat(dir)

		switch {
		case err == nil && !info.IsDir():
			return "", fmt.Errorf("%s is no folder: %w", dir, fs.ErrInvalid)
		case err == nil:
			return dir, nil
		case !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir:
			return "", err
		}

		dir = filepath.Dir(dir)
	}
}

func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".posefleet-doctor-")
	if err != nil {
		return err
	}

	_, err = f.WriteString("x")

	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// plainPathError leaves out the name of the file that was tried.
func plainPathError(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}

	return err.Error()
}
