package store

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"modernc.org/sqlite"
)

//go:embed migrations
var migrations embed.FS

// Options are the settings of Open.
type Options struct {
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger hears of migrations; nil means none.
	Logger *slog.Logger
	// MaxConns bounds the connections to Postgres and SQLite's readers; 0 means 10.
	MaxConns int
}

// CheckURL tells whether Open would understand the URL, without touching a database. The error names no password.
func CheckURL(databaseURL string) error {
	if strings.HasPrefix(databaseURL, "sqlite:") {
		_, err := sqliteDSN(databaseURL)

		return err
	}
	_, err := postgresConfig(databaseURL)

	return err
}

// Open connects to the database, brings its tables up to date and returns the store.
//
// "sqlite:PATH" is a file, created if absent, in WAL mode with one writer. Its commits survive the death of the
// process; after a power cut the last ones may be missing, unless the URL ends in "?synchronous=full".
// "postgres://…" is for several control planes at once.
func Open(ctx context.Context, databaseURL string, o Options) (Store, error) {
	o.Now = orElse(o.Now, time.Now)
	o.MaxConns = cmp.Or(o.MaxConns, 10)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	open := openPostgres
	if strings.HasPrefix(databaseURL, "sqlite:") {
		open = openSQLite
	}
	d, err := open(ctx, databaseURL, o)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}

	return d, nil
}

func orElse(f, other func() time.Time) func() time.Time {
	if f == nil {
		return other
	}

	return f
}

// sqliteParts are the path of "sqlite:PATH[?query]" and the query.
func sqliteParts(databaseURL string) (path, query string) {
	path, query, _ = strings.Cut(strings.TrimPrefix(databaseURL, "sqlite:"), "?")

	return path, query
}

// sqliteDSN turns "sqlite:PATH[?synchronous=full|normal]" into the driver's form.
func sqliteDSN(databaseURL string) (string, error) {
	path, query := sqliteParts(databaseURL)
	if path == "" || strings.Contains(path, ":memory:") {
		return "", errors.New("sqlite: needs the path of a file, as in sqlite:posefleet.db")
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		return "", errors.New("sqlite: the part after ? is not a query")
	}
	synchronous := cmp.Or(strings.ToLower(q.Get("synchronous")), "normal")
	q.Del("synchronous")
	if len(q) > 0 || (synchronous != "normal" && synchronous != "full") {
		return "", errors.New("sqlite: only synchronous=normal or synchronous=full may follow the path")
	}
	pragmas := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(" + synchronous + ")", "foreign_keys(ON)",
	}}
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath(), RawQuery: pragmas.Encode()}

	return u.String(), nil
}

// OwnersFile makes an empty file that only its owner may read, if there is none: SQLite would make one that all may, and give the files beside it
// the same rights. The database knows people's clips and holds the key that signs storage URLs. A file that is there keeps its rights.
func OwnersFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}

	return f.Close()
}

func openSQLite(ctx context.Context, databaseURL string, o Options) (*sqlStore, error) {
	dsn, err := sqliteDSN(databaseURL)
	if err != nil {
		return nil, err
	}
	path, _ := sqliteParts(databaseURL)
	if err := OwnersFile(path); err != nil {
		return nil, err
	}
	writer, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	// One connection writes, so that writers queue in this process instead of failing on the file's lock.
	writer.SetMaxOpenConns(1)
	if err := migrateSQLite(ctx, writer, o.Logger); err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	reader, err := sql.Open("sqlite", strings.Replace(dsn, "_txlock=immediate", "_txlock=deferred", 1))
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	reader.SetMaxOpenConns(o.MaxConns)

	return &sqlStore{
		together: newTogether(), statements: &statements{ready: map[string]*sql.Stmt{}, wanted: map[string]bool{}},
		writer: writer, reader: reader, now: o.Now, sizeOf: sqliteSize(), transient: sqliteTransient,
	}, nil
}

// sqliteTransient tells whether the transaction only lost a race for the file's lock.
func sqliteTransient(err error) bool {
	const busy, locked = 5, 6
	e, ok := errors.AsType[*sqlite.Error](err)

	return ok && (e.Code()&0xff == busy || e.Code()&0xff == locked)
}

// postgresConfig parses the URL; the driver's own error would quote it, password and all.
func postgresConfig(databaseURL string) (*pgx.ConnConfig, error) {
	if !strings.HasPrefix(databaseURL, "postgres://") && !strings.HasPrefix(databaseURL, "postgresql://") {
		return nil, errors.New("a database URL begins with sqlite: or postgres://")
	}
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return nil, errors.New("not a valid postgres:// URL")
	}

	return config, nil
}

func openPostgres(ctx context.Context, databaseURL string, o Options) (*sqlStore, error) {
	config, err := postgresConfig(databaseURL)
	if err != nil {
		return nil, err
	}
	pool := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(LimitIdle))
	pool.SetMaxOpenConns(o.MaxConns)
	pool.SetMaxIdleConns(o.MaxConns)
	// Two control planes may start at once: one migrates, the other waits for it.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 120))
	if err == nil {
		err = migrate(ctx, pool, goose.DialectPostgres, "postgres", o.Logger, goose.WithSessionLocker(locker))
	}
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}

	return &sqlStore{
		writer: pool, reader: pool, now: o.Now, forUpdate: " FOR UPDATE", byBytes: ` COLLATE "C"`,
		sizeOf: postgresSize(), transient: postgresTransient,
	}, nil
}

// idleLimit is how long a transaction may wait for its next statement. Ours have nothing else to do meanwhile.
const idleLimit = 10 * time.Second

// LimitIdle has Postgres end a transaction of the connection, and the connection with it, whose process says nothing for ten seconds: one that
// stands still in the middle of a write would keep its rows from all others for as long as it is not dead. What the URL or the role sets
// goes first.
func LimitIdle(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `SELECT set_config('idle_in_transaction_session_timeout', $1, false)
		WHERE current_setting('idle_in_transaction_session_timeout') = '0'`, strconv.FormatInt(idleLimit.Milliseconds(), 10))
	if err != nil {
		return fmt.Errorf("limit idle transactions: %w", err)
	}

	return nil
}

// postgresTransient tells whether the server undid the transaction for the sake of another one.
func postgresTransient(err error) bool {
	const serializationFailure, deadlock = "40001", "40P01"
	e, ok := errors.AsType[*pgconn.PgError](err)

	return ok && (e.Code == serializationFailure || e.Code == deadlock)
}

// migrateSQLite migrates as often as another process may have been faster: SQLite has no lock that is held from looking
// at the version to the end of a migration, so that the slower one fails, undone as a whole, and has to look again.
func migrateSQLite(ctx context.Context, db *sql.DB, log *slog.Logger) error {
	const tries = 10
	var err error
	for n := range tries {
		if err = migrate(ctx, db, goose.DialectSQLite3, "sqlite", log); err == nil || !lostMigration(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(n+1) * 20 * time.Millisecond):
		}
	}

	return err
}

// lostMigration tells errors that a race can cause from those that will come again, such as a folder that is not there.
func lostMigration(err error) bool {
	const general, constraint = 1, 19
	e, ok := errors.AsType[*sqlite.Error](err)

	return ok && (sqliteTransient(err) || e.Code()&0xff == general || e.Code()&0xff == constraint)
}

func migrate(ctx context.Context, db *sql.DB, d goose.Dialect, dir string, log *slog.Logger, o ...goose.ProviderOption) error {
	files, err := fs.Sub(migrations, "migrations/"+dir)
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(d, db, files, append(o, goose.WithDisableGlobalRegistry(true), goose.WithSlog(log))...)
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}

	return nil
}
