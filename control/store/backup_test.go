package store_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/store/storetest"
)

// A backup that is taken while others write is one moment: each analysis in it has its credit, its entry in the ledger and its event.
func TestBackupWhileWriting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url := "sqlite:" + filepath.Join(dir, "live #1?.db")
	url = strings.ReplaceAll(url, "?", "") + "?synchronous=full"
	s := open(t, url, nil)
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	var mu sync.Mutex
	written := 0
	for w := range 2 {
		writers.Go(func() { // ends with stop
			for i := 0; ctx.Err() == nil; i++ {
				if _, _, err := s.CreateAnalysis(ctx, storetest.NewAnalysis(fmt.Sprintf("an_%d_%d", w, i))); err == nil {
					mu.Lock()
					written++
					mu.Unlock()
				}
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()

		return written
	}
	var copies []string
	var least []int
	for i := range 3 {
		for at := count(); count() < at+20; { // the writers are at it
			if t.Context().Err() != nil {
				t.Fatal("nobody writes")
			}
		}
		least = append(least, count())
		copies = append(copies, filepath.Join(dir, fmt.Sprintf("copy%d.db", i)))
		if n, err := store.Backup(t.Context(), url, copies[i]); err != nil || n < 4096 {
			t.Fatalf("%d, %v", n, err)
		}
	}
	stop()
	writers.Wait()
	for i, path := range copies {
		wantWhole(t, "sqlite:"+path, least[i], count())
	}
	info, err := os.Stat(copies[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := store.Backup(t.Context(), url, copies[0]); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
}

// wantWhole opens a copy and looks whether everything of each analysis is in it.
func wantWhole(t *testing.T, url string, least, most int) {
	t.Helper()
	s := open(t, url, nil)
	n := 0
	for r := (store.PageRequest{Limit: 100}); ; {
		p, err := s.Analyses(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range p.Analyses {
			events, err1 := s.Timeline(t.Context(), a.ID)
			credits, err2 := s.Credits(t.Context(), a.ID)
			entries, err3 := s.Ledger(t.Context(), a.ID)
			if err := errors.Join(err1, err2, err3); err != nil || len(events) != 1 || len(credits) != 1 || len(entries) != 1 {
				t.Fatalf("%s: %d events, %d credits, %d entries, %v", a.ID, len(events), len(credits), len(entries), err)
			}
			n++
		}
		if r.Cursor = p.Next; p.Next == "" {
			break
		}
	}
	if n < least || n > most {
		t.Errorf("%d analyses, not %d to %d", n, least, most)
	}
}

// A backup that can't be made leaves nothing behind, and no database either.
func TestBackupRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing.db")
	if _, err := store.Backup(t.Context(), "sqlite:"+missing, filepath.Join(dir, "copy.db")); err == nil {
		t.Error("a database that is not there was backed up")
	}
	if _, err := store.Backup(t.Context(), "postgres://u:secret@127.0.0.1/db", filepath.Join(dir, "copy.db")); !errors.Is(err, store.ErrNotSQLite) || strings.Contains(err.Error(), "secret") {
		t.Errorf("Postgres: %v", err)
	}
	junk := filepath.Join(dir, "junk.db")
	if err := os.WriteFile(junk, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Backup(t.Context(), "sqlite:"+junk, filepath.Join(dir, "copy.db")); err == nil {
		t.Error("junk was backed up")
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}
