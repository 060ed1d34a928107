package control_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/internal/pgtest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol/webhook"
)

// hanging is a customer's server that answers the notices of some analyses only when it is let go.
type hanging struct {
	*httptest.Server
	secrets []webhook.Secret
	hangs   func(id string) bool
	letGo   chan struct{}
	// givenUp counts the notices whose sender did not wait for the answer.
	givenUp atomic.Int64

	mu   sync.Mutex
	seen map[string]int
	// hanging is how many notices wait for their answer now, beside how many others came while one did.
	hanging, beside int
}

func newHanging(t *testing.T, hangs func(id string) bool) *hanging {
	t.Helper()
	secrets, err := webhook.ParseSecrets(webhook.Generate())
	if err != nil {
		t.Fatal(err)
	}
	h := &hanging{secrets: secrets, hangs: hangs, letGo: make(chan struct{}), seen: map[string]int{}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)

	return h
}

// ServeHTTP implements http.Handler.
func (h *hanging) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(webhook.HeaderID)
	hangs := h.hangs(id)
	h.mu.Lock()
	h.seen[id]++
	if hangs {
		h.hanging++
		defer func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.hanging--
		}()
	} else if h.hanging > 0 {
		h.beside++
	}
	h.mu.Unlock()
	if hangs {
		select {
		case <-h.letGo:
		case <-r.Context().Done():
			h.givenUp.Add(1)
		}
	}
}

// count is how many notices came, and how many times the one that came most often.
func (h *hanging) count() (notices, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.seen {
		most = max(most, n)
	}

	return len(h.seen), most
}

// A receiver that hangs with one notice gets the others meanwhile.
func TestReceiverHangsWithOneNotice(t *testing.T) {
	t.Parallel()
	r := newHanging(t, func(id string) bool { return strings.HasPrefix(id, "ntc_an_0_") })
	defer close(r.letGo)
	b := setup(t, func(c *control.Config) { c.NoticeURL, c.NoticeSecrets, c.Now = r.URL, r.secrets, nil })
	b.clock.now = time.Now()
	var reports []func()
	for i := range 6 {
		id := fmt.Sprintf("an_%d", i)
		b.queued(t, id)
		c := b.redeem(t, redeemRequest(id, "w1", 1))
		a := b.artifact(t, c, poseBytes(t, poseDoc))
		reports = append(reports, func() { b.report(t, c, completed(c, a)).want(t, http.StatusOK, "") })
	}
	reports[0]()
	wait.For(t, patience, func() bool { n, _ := r.count(); return n == 1 }, "no notice")
	for _, report := range reports[1:] {
		report()
	}
	wait.For(t, patience, func() bool { n, _ := r.count(); return n == 6 }, "the others' notices wait for the one that hangs")
	r.mu.Lock()
	defer r.mu.Unlock()
	// On a machine that is slow the one that hangs may have been given up meanwhile, and some may have come before it was tried again.
	if r.beside == 0 || r.givenUp.Load() == 0 && r.beside != 5 {
		t.Errorf("%d of the others came while the first one hung", r.beside)
	}
}

// Two control planes on one Postgres post each notice once, although the receiver takes longer to answer than either of them to look again.
func TestTwoControlPlanesPostANoticeOnce(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	t.Run("planes", func(t *testing.T) { // ends before the server
		r := newHanging(t, func(string) bool { return true })
		url := server.Database()
		first := setup(t, func(c *control.Config) {
			c.DatabaseURL, c.NoticeURL, c.NoticeSecrets, c.Now = url, r.URL, r.secrets, nil
		})
		first.clock.now = time.Now()
		setup(t, func(c *control.Config) {
			c.DatabaseURL, c.StorageURL, c.NoticeURL, c.NoticeSecrets, c.Now = url, first.cfg.StorageURL, r.URL, r.secrets, nil
		})
		db, err := store.Open(t.Context(), url, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		letGo := sync.OnceFunc(func() { close(r.letGo) })
		defer letGo()
		const notices = 5
		for i := range notices {
			first.delivered(t, fmt.Sprintf("an_%d", i))
		}
		wait.For(t, 3*patience, func() bool { n, _ := r.count(); return n == notices }, "not all notices came")
		// Both look every two seconds.
		begun, looked, longest := time.Now(), time.Now(), time.Duration(0)
		wait.For(t, patience, func() bool {
			_, err := db.Outbox(t.Context(), 1, store.OutboxNotice)
			longest, looked = max(longest, time.Since(looked)), time.Now()

			return err == nil && time.Since(begun) > 5*time.Second
		})
		letGo()
		wait.For(t, patience, func() bool {
			left, err := db.Outbox(t.Context(), 1, store.OutboxNotice)

			return err == nil && len(left) == 0
		}, "the notices are not done")
		// A sender that got no answer in its time has to post again, and one that was not heard of for seconds counts as gone.
		if n, most := r.count(); n != notices || most != 1 && r.givenUp.Load() == 0 && longest < 2*time.Second {
			t.Errorf("%d notices, one of them %d times; the longest look at the outbox took %s", n, most, longest)
		}
	})
}
