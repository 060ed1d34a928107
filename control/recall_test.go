package control_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

// The door hangs, for each of many analyses that are cancelled: every hint is there long before the door could be given up as often, one after the
// other, and the door is told of several at once.
func TestRecallsPastADoorThatHangs(t *testing.T) {
	t.Parallel()
	const cancelled = 20
	redis := redistest.Start(t)
	secrets, err := webhook.ParseSecrets(webhook.Generate())
	if err != nil {
		t.Fatal(err)
	}
	asked, open := make(chan string, cancelled), make(chan struct{})
	door := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.URL.Path:
		default:
		}
		select {
		case <-open:
		case <-r.Context().Done():
		}
	}))
	defer door.Close()
	defer close(open)
	b := setup(t, func(c *control.Config) { c.RedisURL, c.DoorURL, c.DoorSecrets = redis.URL, door.URL, secrets })
	for i := range cancelled {
		id := fmt.Sprintf("an_%d", i)
		b.queued(t, id)
		b.redeem(t, protocol.RedeemRequest{AnalysisID: id, WorkerID: "w1", Source: protocol.SourceHTTP, JobID: id, Attempt: 1})
	}
	for i := range cancelled {
		b.api(t, http.MethodPost, fmt.Sprintf("/v1/analyses/an_%d/cancel", i), nil).want(t, http.StatusAccepted, "")
	}
	stream := protocol.HintPrefix(b.cfg.Prefix, b.cfg.Queue) + ":" + protocol.HintQueue + ":events"
	wait.For(t, time.Minute, func() bool { // one after the other, the door's ten seconds each, they would take three minutes
		n, err := redis.Client().XLen(t.Context(), stream).Result()

		return err == nil && n == cancelled
	}, "not all hints are there")
	for range 2 {
		select {
		case path := <-asked:
			if !strings.HasSuffix(path, "/cancel") {
				t.Errorf("the door was asked for %s", path)
			}
		case <-time.After(time.Minute):
			t.Fatal("the door is not told")
		}
	}
}
