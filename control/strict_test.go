package control_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/protocol"
)

// TestStrictBodies: an operator's mistyped or doubled field is refused by its name, and nothing has been done.
func TestStrictBodies(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.uploaded(t, "an_1")
	for _, tt := range []struct{ path, body, detail string }{
		{"/v1/analyses/an_1/submit", `{"dispach":"none"}`, `field "dispach" is not known`},
		{"/v1/analyses/an_1/submit", `{"Dispatch":"none"}`, `field "Dispatch" is not known`},
		{"/v1/analyses/an_1/submit", `{"dispatch":"none","dispatch":"queue"}`, `field "dispatch" comes twice`},
		{"/v1/analyses/an_1/cancel", `{"raeson":"x"}`, `field "raeson" is not known`},
		{"/v1/analyses/an_1/retry", `{"round":0,"round":1}`, `field "round" comes twice`},
		{"/v1/analyses", `{"analysisId":"an_2","clips":[{"id":"c1","sise":1}]}`, `field "clips[0].sise" is not known`},
		{"/v1/analyses", `{"analysisId":"an_2","clips":[],"params":{"model":"lite","model":"full"}}`, `field "params.model" comes twice`},
	} {
		r := b.do(t, http.MethodPost, tt.path, http.Header{"Content-Type": {"application/json"}}, []byte(tt.body))
		if p := r.want(t, http.StatusBadRequest, protocol.CodeInvalidRequest).problem(t); !strings.Contains(p.Detail, tt.detail) {
			t.Errorf("%s %s: %s", tt.path, tt.body, p.Detail)
		}
	}
	if s := b.status(t, "an_1"); s != "uploading" {
		t.Errorf("the analysis is %s", s)
	}
	b.api(t, http.MethodGet, "/v1/analyses/an_2", nil).want(t, http.StatusNotFound, protocol.CodeUnknownAnalysis)
}
