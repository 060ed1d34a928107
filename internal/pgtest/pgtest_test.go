package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/posefleet/posefleet/internal/pgtest"
)

func TestDatabasesAreSeparateAndSurviveAKill(t *testing.T) {
	t.Parallel()

	s := pgtest.Start(t)
	one, two := s.Database(), s.Database()

	run(t, one, "create table t (n int)", "insert into t values (7)")
	run(t, two, "create table t (n text)")

	s.Kill()
	s.Restart()

	conn := connect(t, one)

	var n int
	if err := conn.QueryRow(t.Context(), "select n from t").Scan(&n); err != nil || n != 7 {
		t.Fatalf("after kill and restart: %d, %v", n, err)
	}
}

func run(t *testing.T, url string, statements ...string) {
	t.Helper()

	conn := connect(t, url)
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()

	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}

	// Ends before the server does: cleanups run last in, first out.
	t.Cleanup(func() { _ = conn.Close(t.Context()) })

	return conn
}
