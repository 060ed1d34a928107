package study

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // makes the schemas of Postgres

	"github.com/posefleet/posefleet/control/store"
)

// Database is a kind of database with a way to get an empty store in it.
type Database struct {
	Name string
	// Empty opens one that nobody else uses; done closes it and leaves nothing behind.
	Empty func(ctx context.Context) (s store.Store, done func() error, err error)
}

// SQLite makes its stores in files of a folder, which the caller removes.
func SQLite(dir string) Database {
	return Database{Name: "SQLite", Empty: func(ctx context.Context) (store.Store, func() error, error) {
		s, err := store.Open(ctx, "sqlite:"+filepath.Join(dir, newName()+".db"), store.Options{})
		if err != nil {
			return nil, nil, err
		}

		return s, s.Close, nil
	}}
}

// Postgres makes its stores in schemas of their own in one database, and removes them.
func Postgres(databaseURL string) Database {
	return Database{Name: "Postgres", Empty: func(ctx context.Context) (store.Store, func() error, error) {
		schema := newName()
		if err := execute(ctx, databaseURL, "CREATE SCHEMA "+schema); err != nil {
			return nil, nil, err
		}
		drop := func() error {
			return execute(context.WithoutCancel(ctx), databaseURL, "DROP SCHEMA "+schema+" CASCADE")
		}
		s, err := store.Open(ctx, inSchema(databaseURL, schema), store.Options{})
		if err != nil {
			return nil, nil, errors.Join(err, drop())
		}

		return s, func() error { return errors.Join(s.Close(), drop()) }, nil
	}}
}

func newName() string { return "study_" + strings.ToLower(rand.Text()) }

// inSchema has all tables made and found in the schema.
func inSchema(databaseURL, schema string) string {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return databaseURL // the store says what is wrong with it, without a password
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()

	return u.String()
}

func execute(ctx context.Context, databaseURL, statement string) error {
	if err := store.CheckURL(databaseURL); err != nil {
		return err
	}
	db, err := sql.Open("pgx", databaseURL)
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	_, err = db.ExecContext(ctx, statement)
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}

	return nil
}
