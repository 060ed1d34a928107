package control

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posefleet/posefleet/control/store"
)

// moodyStore is a database that is away at times, with an outbox that is empty.
type moodyStore struct {
	store.Store

	away  atomic.Bool
	looks atomic.Int64
}

func (s *moodyStore) ClaimOutbox(context.Context, store.OutboxClaim) ([]store.OutboxEntry, error) {
	s.looks.Add(1)
	if s.away.Load() {
		return nil, errors.New("connection refused")
	}

	return nil, nil
}

func (*moodyStore) ReleaseOutbox(context.Context, string) error { return nil }

// A courier that can't read its outbox, which it looks at every two seconds, says so once a minute; when it could in between, it is news.
func TestUnreadOutboxIsSaidOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const minutes = 10
		var log bytes.Buffer
		s := &moodyStore{}
		c := &courier{store: s, kind: store.OutboxNotice, slots: 4, log: slog.New(slog.NewTextHandler(&log, nil)), wake: make(chan struct{}, 1)}
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.run(ctx) })
		for range 2 {
			s.away.Store(true)
			<-time.After(minutes*time.Minute - time.Second)
			s.away.Store(false)
			<-time.After(10 * time.Second)
		}
		end()
		running.Wait()
		said := strings.Count(log.String(), "outbox can't be read")
		if said != 2*minutes || s.looks.Load() < 2*minutes*30 {
			t.Errorf("said %d times after %d looks in twice %d minutes:\n%s", said, s.looks.Load(), minutes, log.String())
		}
	})
}
