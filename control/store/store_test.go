package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/store/storetest"
	"github.com/posefleet/posefleet/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens the store of the URL for the length of the test.
func open(t *testing.T, url string, now func() time.Time) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})

	return s
}

func openSQLite(t *testing.T, now func() time.Time) store.Store {
	t.Helper()

	return open(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db"), now)
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, openSQLite)
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	var mu sync.Mutex
	// The group ends before the server does, although its tests are parallel.
	t.Run("suite", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T, now func() time.Time) store.Store {
			t.Helper()
			// CREATE DATABASE copies a template that only one may copy at a time.
			mu.Lock()
			url := server.Database()
			mu.Unlock()

			return open(t, url, now)
		})
	})
	t.Run("start of several at once", func(t *testing.T) {
		url := server.Database()
		openTogether(t, url)
	})
}

func TestSQLiteStartOfSeveralAtOnce(t *testing.T) {
	t.Parallel()
	openTogether(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db"))
}

// openTogether opens one empty database five times at once, as a deploy of several control planes does.
func openTogether(t *testing.T, url string) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			s, err := store.Open(t.Context(), url, store.Options{})
			if err != nil {
				t.Error(err)

				return
			}
			defer s.Close()
			id := fmt.Sprintf("an_%d", i)
			if _, _, err := s.CreateAnalysis(t.Context(), storetest.NewAnalysis(id)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := open(t, url, nil)
	if p, err := s.Analyses(t.Context(), store.PageRequest{Limit: 10}); err != nil || len(p.Analyses) != 5 {
		t.Fatalf("%d analyses, %v", len(p.Analyses), err)
	}
}

// Design row "0": what was committed is there after the end of the process, the outbox entry with it.
func TestSQLiteKeeps(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "a folder#1", "test.db") + "?synchronous=full"
	if err := os.Mkdir(filepath.Dir(url[len("sqlite:"):]), 0o755); err != nil {
		t.Fatal(err)
	}
	first, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := storetest.NewAnalysis("an_1")
	if _, _, err := first.CreateAnalysis(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Submit(t.Context(), store.Submission{ID: "an_1", Clips: n.Clips, Dispatch: true}); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, url, nil)
	if all, err := again.Outbox(t.Context(), 10); err != nil || len(all) != 1 || all[0].AnalysisID != "an_1" {
		t.Fatalf("%+v, %v", all, err)
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"sqlite:posefleet.db":                          true,
		"sqlite:/var/lib/p.db?synchronous=full":        true,
		"sqlite:":                                      false,
		"sqlite::memory:":                              false,
		"sqlite:p.db?mode=ro":                          false,
		"sqlite:p.db?synchronous=off":                  false,
		"postgres://u:secret@127.0.0.1:5432/db":        true,
		"postgresql://127.0.0.1/db":                    true,
		"postgres://u:secret@127.0.0.1:54x32/db":       false,
		"postgres://u:secret@h/db?sslmode=never-heard": false,
		"mysql://u:secret@h/db":                        false,
		"":                                             false,
	} {
		err := store.CheckURL(url)
		if (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows the password: %v", url, err)
		}
	}
}

// What a process had taken on when it was killed is free for the next one: at once in SQLite, which is for one process; after a while in Postgres,
// where it may be alive.
func TestSQLiteReleasesOrphans(t *testing.T) {
	t.Parallel()
	b := storetest.NewBundle(t, openSQLite)
	b.Dispatched(t, "an_1")
	c := store.OutboxClaim{Owner: "killed", Kinds: []store.OutboxKind{store.OutboxDispatch}, Limit: 1, Lease: time.Hour}
	for _, owner := range []string{"killed", "next"} {
		c.Owner = owner
		if all, err := b.ClaimOutbox(t.Context(), c); err != nil || len(all) != 1 {
			t.Fatalf("%s: %+v, %v", owner, all, err)
		}
		if err := b.ReleaseOutbox(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
}
