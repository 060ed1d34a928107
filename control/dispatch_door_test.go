package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/store/storetest"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

// The answers that a worker gives only in moments that are hard to meet; the others are TestRollout's.
func TestDoorAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		status int
		code   protocol.Code
		header string
		// later is the pause asked for; refused an error; ends that the round is failed.
		later   time.Duration
		refused bool
		ends    bool
		queued  bool // goes to the queue instead
	}{
		{name: "accepted", status: 202},
		{name: "ended a moment ago, in another round", status: 200, queued: true},
		{name: "held", status: 409, code: protocol.CodeClaimHeld},
		{name: "gone", status: 410, code: protocol.CodeClaimGone},
		{name: "busy", status: 429, header: "7", later: 7 * time.Second},
		{name: "busy, says nothing", status: 429, later: doorBusy},
		{name: "stopping, for an hour", status: 503, header: "3600", later: doorMost},
		{name: "another control plane's", status: 404, code: protocol.CodeUnknownAnalysis, ends: true},
		{name: "not a door", status: 404, refused: true},
		{name: "another secret", status: 401, code: protocol.CodeUnauthorized, refused: true},
		{name: "a redirect", status: 307, refused: true},
		{name: "broken", status: 500, refused: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			secret := webhook.Generate()
			secrets, err := webhook.ParseSecrets(secret)
			if err != nil {
				t.Fatal(err)
			}
			verifier := webhook.NewVerifier(secrets)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || string(body) != `{"v":1,"analysisId":"an_1"}` {
					t.Errorf("%s, %v", body, err)
				}
				if _, err := verifier.Verify(r.Header, body); err != nil || r.URL.Path != "/v1/jobs" {
					t.Error(r.URL.Path, err)
				}
				w.Header().Set("Retry-After", c.header)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				_ = json.NewEncoder(w).Encode(protocol.Problem{Status: c.status, Code: c.code})
			}))
			defer server.Close()
			s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "test.db"), store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			n := storetest.NewAnalysis("an_1")
			if _, _, err := s.CreateAnalysis(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Submit(t.Context(), store.Submission{ID: "an_1", Clips: n.Clips, Run: store.RunSubmitted}); err != nil {
				t.Fatal(err)
			}
			queued := false
			elsewhere := func(_ context.Context, id string) error {
				queued = id == "an_1"

				return nil
			}
			d := newDoor(s, &Config{DoorURL: server.URL + "/v1/jobs", DoorSecrets: secrets, Now: time.Now}, elsewhere, slog.New(slog.DiscardHandler))
			err = d.dispatch(t.Context(), store.OutboxEntry{AnalysisID: "an_1"})
			later, _ := errors.AsType[*laterError](err)
			switch {
			case c.later > 0 && (later == nil || later.after != c.later):
				t.Errorf("%v is no pause of %s", err, c.later)
			case c.refused != errors.Is(err, errDoorRefuses):
				t.Errorf("%v", err)
			case c.later == 0 && !c.refused && err != nil:
				t.Errorf("%v", err)
			}
			a, err := s.Analysis(t.Context(), "an_1")
			if queued != c.queued {
				t.Errorf("to the queue: %v", queued)
			}
			if err != nil || (a.Status == store.StatusFailed) != c.ends {
				t.Errorf("%s, %v", a.Status, err)
			}
			d.client.CloseIdleConnections()
		})
	}
}
