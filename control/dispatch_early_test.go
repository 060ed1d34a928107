package control_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

// A job of the id is in the queue, finished, before there is an analysis: somebody added it too early, or the database is a new one. It says
// nothing about the analysis, which is dispatched at once when it is submitted.
func TestJobFromBeforeTheAnalysis(t *testing.T) {
	t.Parallel()
	for state, was := range map[queue.State]error{
		queue.StateFailed:    queue.Unrecoverable(errors.New("unknown_analysis: There is no such analysis.")),
		queue.StateCompleted: nil,
	} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			h := newHand(t)
			h.work(t, func(_ context.Context, j *queue.Job) (any, error) {
				got := h.post(t, "/v1/claims/"+j.ID, webhook.NewID("req"), redeemRequest(j.ID, "w1", j.AttemptsStarted))
				h.starts <- got.status
				if got.status == http.StatusNotFound {
					return nil, was
				}
				c, _, err := protocol.ParseClaim(got.want(t, http.StatusOK, "").body, j.ID)
				if err != nil {
					return nil, err
				}
				h.report(t, c, completed(c, h.artifact(t, c, poseBytes(t, poseDoc)))).want(t, http.StatusOK, "")

				return nil, nil
			})
			if _, err := h.queue.Add(t.Context(), protocol.JobName, protocol.NewJobData("an_1"), queue.JobOptions{JobID: "an_1"}); err != nil {
				t.Fatal(err)
			}
			h.wantStart(t, http.StatusNotFound)
			h.wantEnd(t, state)
			h.submitted(t, "an_1")
			h.wantStart(t, http.StatusOK)
			h.wantEnd(t, queue.StateCompleted)
			if got := h.status(t, "an_1"); got != "delivered" {
				t.Errorf("the analysis is %s", got)
			}
		})
	}
}
