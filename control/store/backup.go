package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// ErrNotSQLite refuses to back up what has tools of its own: pg_dump.
var ErrNotSQLite = errors.New("only a sqlite: database is backed up like this; for Postgres there is pg_dump")

// Backup writes a copy of the SQLite database of the URL to path, which must not exist, and returns its size in bytes. The database may be
// in use: the copy is that of one moment. It has been checked and is on disk when Backup returns, and only its owner may read it, since it
// holds the key that signs storage URLs. A backup that fails leaves nothing.
func Backup(ctx context.Context, databaseURL, path string) (int64, error) {
	if !strings.HasPrefix(databaseURL, "sqlite:") {
		return 0, ErrNotSQLite
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("back up: %s: %w", path, fs.ErrExist)
	}
	half := path + ".part"
	f, err := os.OpenFile(half, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, fmt.Errorf("back up: %w", err)
	}
	size, err := backUp(ctx, databaseURL, half, f)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(half, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return 0, fmt.Errorf("back up: %w", errors.Join(err, removed(half)))
	}

	return size, nil
}

// backUp fills the empty file f, whose path is half.
func backUp(ctx context.Context, databaseURL, half string, f *os.File) (int64, error) {
	source, err := openFile(strings.TrimPrefix(databaseURL, "sqlite:"), "rw") // a reader of a WAL takes part in its locks
	if err != nil {
		return 0, err
	}
	defer source.Close()
	if _, err := source.ExecContext(ctx, "VACUUM INTO ?", half); err != nil {
		return 0, err
	}
	if err := checkCopy(ctx, half); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}

	return info.Size(), nil
}

// checkCopy reads the whole copy.
func checkCopy(ctx context.Context, path string) error {
	db, err := openFile(path, "ro")
	if err != nil {
		return err
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("the copy is damaged: %s", verdict)
	}

	return nil
}

// openFile opens a database file that exists.
func openFile(path, mode string) (*sql.DB, error) {
	path, _, _ = strings.Cut(path, "?")
	u := url.URL{
		Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath(),
		RawQuery: url.Values{"mode": {mode}, "_pragma": {"busy_timeout(10000)"}}.Encode(),
	}

	return sql.Open("sqlite", u.String())
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}

	return errors.Join(d.Sync(), d.Close())
}

// removed removes a half-done copy, if there is one.
func removed(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}
