package control_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/pgtest"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

// saved is a database that can be backed up in use, and gone back to by a control plane that has stopped.
type saved struct {
	url     string
	backup  func(t *testing.T)
	restore func(t *testing.T) (url string)
}

func savedSQLite(t *testing.T) saved {
	t.Helper()
	dir := t.TempDir()
	live, copied := filepath.Join(dir, "live.db"), filepath.Join(dir, "backup.db")

	return saved{
		url: "sqlite:" + live,
		backup: func(t *testing.T) {
			t.Helper()
			if _, err := store.Backup(t.Context(), "sqlite:"+live, copied); err != nil {
				t.Fatal(err)
			}
		},
		restore: func(t *testing.T) string {
			t.Helper()
			old, err := filepath.Glob(live + "*") // with its log, and the runs, which are begun anew
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range old {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Rename(copied, live); err != nil {
				t.Fatal(err)
			}

			return "sqlite:" + live
		},
	}
}

func savedPostgres(t *testing.T) saved {
	t.Helper()
	server := pgtest.Start(t)
	live, dump := server.Database(), filepath.Join(t.TempDir(), "backup.sql")
	run := func(t *testing.T, program string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), need.Program(t, program), args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", program, err, out)
		}
	}

	return saved{
		url:    live,
		backup: func(t *testing.T) { run(t, "pg_dump", "--file="+dump, "--dbname="+live) },
		restore: func(t *testing.T) string {
			t.Helper()
			fresh := server.Database()
			run(t, "psql", "--quiet", "--set=ON_ERROR_STOP=1", "--single-transaction", "--file="+dump, "--dbname="+fresh)

			return fresh
		},
	}
}

// Going back to a backup that is older than Redis, with workers that work on: nothing is stuck, nothing that was decided before is lost,
// and what was decided since is done again under the same ids.
func TestRestore(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) saved{"SQLite": savedSQLite, "Postgres": savedPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testRestore(t, open(t))
		})
	}
}

func testRestore(t *testing.T, db saved) {
	secrets, err := webhook.ParseSecrets(webhook.Generate())
	if err != nil {
		t.Fatal(err)
	}
	customer := &receiver{verifier: webhook.NewVerifier(secrets)}
	server := httptest.NewServer(customer)
	defer server.Close()
	redis := redistest.Start(t)
	b := setup(t, func(c *control.Config) {
		c.RedisURL, c.DatabaseURL, c.NoticeURL, c.NoticeSecrets, c.RunLook = redis.URL, db.url, server.URL, secrets, 3*time.Second
		c.JobAttempts = 1
		customer.clock, customer.begun = c.Now, c.Now()
	})
	q := b.openQueue(t)
	for _, id := range []string{"an_before", "an_since", "an_works"} {
		b.submitted(t, id)
		wait.For(t, patience, func() bool { return b.has(t, id, "dispatched") }, "%s is not dispatched", id)
	}
	before := b.redeem(t, redeemRequest("an_before", "w1", 1))
	b.report(t, before, completed(before, b.artifact(t, before, poseBytes(t, poseDoc)))).want(t, http.StatusOK, "")
	wait.For(t, patience, func() bool { return customer.got("ntc_an_before_0") }, "no notice of the first")

	db.backup(t)

	// Since then one was delivered, one is being worked on, one was made.
	since := b.redeem(t, redeemRequest("an_since", "w1", 1))
	b.report(t, since, completed(since, b.artifact(t, since, poseBytes(t, poseDoc)))).want(t, http.StatusOK, "")
	wait.For(t, patience, func() bool { return customer.got("ntc_an_since_0") }, "no notice of the second")
	works := b.redeem(t, redeemRequest("an_works", "w1", 1))
	worked := completed(works, b.artifact(t, works, poseBytes(t, poseDoc)))
	b.submitted(t, "an_new")
	wantRestoredJob(t, q, "an_new")
	b.stop()
	b.cfg.DatabaseURL = db.restore(t)
	// The callbacks and the storage's addresses that workers have are those of the same listener.
	b.cfg.Listen = b.Addr()
	b.clock.advance(5 * time.Minute)
	b.start(t)

	// What was decided before is so, and its job is gone for good.
	b.post(t, "/v1/claims/an_before", webhook.NewID("req"), redeemRequest("an_before", "w2", 2)).want(t, http.StatusGone, protocol.CodeClaimGone)
	// The worker holds a claim that the database has never given out: it stops at its next renewal, or is refused at its report.
	b.post(t, "/v1/claims/an_works/renew", webhook.NewID("req"), protocol.LeaseRequest{AnalysisID: "an_works", Claim: works.Claim, Epoch: works.Epoch}).
		want(t, http.StatusConflict, protocol.CodeClaimLost)
	b.report(t, works, worked).want(t, http.StatusUnprocessableEntity, protocol.CodeResultRefused)
	if s := b.status(t, "an_works"); s != "queued" {
		t.Errorf("the refused result left it %s", s)
	}
	// Its job fails with that, and the others have ended too. The runs find that nobody is at it any more, and have it done again.
	b.failJob(t, q, "an_works")
	for _, id := range []string{"an_since", "an_works"} {
		wait.For(t, 2*patience, func() bool {
			b.clock.advance(time.Minute)
			s, err := q.State(t.Context(), id)

			return err == nil && s == queue.StateWaiting
		}, "the job of %s does not wait again", id)
		c := b.redeem(t, redeemRequest(id, "w3", 3))
		b.report(t, c, completed(c, b.artifact(t, c, poseBytes(t, poseDoc)))).want(t, http.StatusOK, "")
	}
	// Its maker makes the one that is unknown again; the same id, and in the end one outcome.
	b.post(t, "/v1/claims/an_new", webhook.NewID("req"), redeemRequest("an_new", "w1", 1)).want(t, http.StatusNotFound, protocol.CodeUnknownAnalysis)
	b.api(t, http.MethodPost, "/v1/analyses", newAnalysis("an_new")).want(t, http.StatusCreated, "") // its clip is in storage
	b.api(t, http.MethodPost, "/v1/analyses/an_new/submit", nil).want(t, http.StatusAccepted, "")
	c := b.redeem(t, redeemRequest("an_new", "w3", 1))
	b.report(t, c, completed(c, b.artifact(t, c, poseBytes(t, poseDoc)))).want(t, http.StatusOK, "")

	// Two of the first time, three of the second: the one that came twice has one id. So has the first, if the backup was made between
	// its notice and the note of it.
	counted := func() map[string]int {
		customer.mu.Lock()
		defer customer.mu.Unlock()
		count := map[string]int{}
		for _, id := range customer.ids {
			count[id]++
		}

		return count
	}
	wait.For(t, patience, func() bool { c := counted(); return len(c) == 4 && c["ntc_an_since_0"] == 2 }, "not all are told")
	count := counted()
	customer.mu.Lock()
	defer customer.mu.Unlock()
	if count["ntc_an_before_0"] > 2 || count["ntc_an_since_0"] != 2 || count["ntc_an_works_0"] != 1 || count["ntc_an_new_0"] != 1 || len(customer.faults) > 0 {
		t.Errorf("%v %v", count, customer.faults)
	}
	if got := decode[account](t, b.api(t, http.MethodGet, "/v1/accounts/default", nil)); got.Settled != 4 || got.Reserved != 0 || got.Refunded != 0 {
		t.Errorf("%+v", got)
	}
}

// wantRestoredJob waits for a job, whatever its options.
func wantRestoredJob(t *testing.T, q *queue.Queue, id string) {
	t.Helper()
	wait.For(t, patience, func() bool {
		_, err := q.Job(t.Context(), id)

		return err == nil
	}, "no job %s", id)
}
