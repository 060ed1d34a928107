package control

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/posefleet/posefleet/protocol"
)

// Parameters that several operations have.
func query(name, description string, schema *huma.Schema) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: description, Schema: schema}
}

func header(name, description string) *huma.Param {
	return &huma.Param{Name: name, In: "header", Description: description, Schema: &huma.Schema{Type: huma.TypeString}}
}

// submitRequest is the body of POST /v1/analyses/{id}/submit; it may be absent.
type submitRequest struct {
	Dispatch string `json:"dispatch,omitempty" enum:"queue,none" doc:"none leaves adding the job to the caller."`
}

func textSchema() *huma.Schema { return &huma.Schema{Type: huma.TypeString} }

func knownTag() *huma.Param {
	return header("If-None-Match", "The ETag of an answer that is known: 304 if it still holds.")
}

// filters are those of lists of analyses.
func filters() []*huma.Param {
	most, least := float64(maxPageLimit), 1.0
	states := &huma.Schema{Type: huma.TypeString}
	for _, s := range statuses() {
		states.Enum = append(states.Enum, string(s))
	}

	return []*huma.Param{
		query("limit", "How many a page has at most.", &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most, Default: defaultPageLimit}),
		query("cursor", "The next of the page before.", textSchema()),
		query("status", "Only analyses in this state.", states),
		query("account", "Only analyses that this account pays for.", textSchema()),
		query("id", "Only analyses whose id begins like this, in the order of their ids.", textSchema()),
	}
}

func actionParams() []*huma.Param {
	return []*huma.Param{
		header("Idempotency-Key", "The caller's name of the request: sent again with it, it is carried out once."),
		header(actorHeader, "Who is behind the token, for timeline and ledger."),
	}
}

// operations is the table of the operator API and of what workers send.
func (s *Server) operations() []operation {
	all := append(s.analysisOperations(), s.actionOperations()...)
	all = append(all, s.mediaOperations()...)
	all = append(all, s.accountOperations()...)
	all = append(all, s.processOperations()...)

	return append(all, s.workerOperations()...)
}

func (s *Server) analysisOperations() []operation {
	const tag = "analyses"

	return []operation{
		{
			method: http.MethodPost, path: "/v1/analyses", id: "createAnalysis", tag: tag, needs: roleOperate, serve: s.operator(s.create),
			summary: "Make an analysis, reserve its credit, and learn where to put its clips. Sent again it is answered alike with 200.",
			body:    createRequest{}, answers: map[int]any{200: createAnswer{}, 201: createAnswer{}}, faults: []int{400, 402, 409, 413, 415},
		},
		{
			method: http.MethodGet, path: "/v1/analyses", id: "listAnalyses", tag: tag, needs: roleRead, serve: s.reader(s.list),
			summary: "List analyses, newest first, without timeline, executions, credits and ledger.",
			params:  append(filters(), knownTag()), answers: map[int]any{200: listView{}, 304: nil}, faults: []int{400},
		},
		{
			method: http.MethodGet, path: "/v1/live", id: "followAnalyses", tag: tag, needs: roleRead, serve: patient(s.reader(s.liveList)),
			summary: "Follow a list by server-sent events: event analyses with the list, now and at each change.",
			params:  filters(), media: "text/event-stream", answers: map[int]any{200: nil}, faults: []int{400},
		},
		{
			method: http.MethodGet, path: "/v1/analyses/{id}", id: "getAnalysis", tag: tag, needs: roleRead, serve: s.reader(s.get),
			summary: "Read one analysis with everything that touched it.",
			params:  []*huma.Param{knownTag()}, answers: map[int]any{200: analysisView{}, 304: nil}, faults: []int{404},
		},
		{
			method: http.MethodGet, path: "/v1/analyses/{id}/events", id: "followAnalysis", tag: tag, needs: roleRead, serve: patient(s.reader(s.live)),
			summary: "Follow one analysis by server-sent events: event analysis with the analysis, now and at each change; event end when it is decided.",
			media:   "text/event-stream", answers: map[int]any{200: nil}, faults: []int{404},
		},
		{
			method: http.MethodPost, path: "/v1/analyses/{id}/submit", id: "submitAnalysis", tag: tag, needs: roleOperate, serve: s.operator(s.submit),
			summary: "End the upload and let the work begin. Sent again it changes nothing.",
			body:    submitRequest{}, answers: map[int]any{202: analysisView{}}, faults: []int{400, 404, 409, 413, 415},
		},
	}
}

func (s *Server) actionOperations() []operation {
	action := func(name, id, summary string, h handler) operation {
		return operation{
			method: http.MethodPost, path: "/v1/analyses/{id}/" + name, id: id, tag: "actions", summary: summary, needs: roleOperate, serve: s.operator(h),
			params: actionParams(), body: actionRequest{}, answers: map[int]any{202: analysisView{}}, faults: []int{400, 404, 409, 413, 415},
		}
	}

	return []operation{
		action("cancel", "cancelAnalysis", "End an analysis that has not been decided, and give its credit back.", s.cancel),
		action("retry", "retryAnalysis", "Let a failed analysis run again in a new round, for another credit.", s.retry),
		action("redeliver", "redeliverNotice", "Send the notice of an outcome again, with the same id and bytes.", s.redeliver),
	}
}

func (s *Server) mediaOperations() []operation {
	const tag = "media"

	return []operation{
		{
			method: http.MethodGet, path: "/v1/analyses/{id}/pose", id: "getPose", tag: tag, needs: roleRead, serve: patient(s.reader(s.pose)),
			summary: "Read the pose document of a delivered analysis.", media: "application/json", answers: map[int]any{200: nil}, faults: []int{404},
		},
		{
			method: http.MethodGet, path: "/v1/analyses/{id}/clips/{clip}", id: "getClip", tag: tag, needs: roleRead, serve: patient(s.reader(s.clip)),
			summary: "Read a clip, or a range of it.", media: "*/*", answers: map[int]any{200: nil, 206: nil, 304: nil, 416: nil}, faults: []int{404},
		},
		{
			method: http.MethodGet, path: "/v1/analyses/{id}/clips/{clip}/preview", id: "getPreview", tag: tag, needs: roleRead, serve: patient(s.reader(s.preview)),
			summary: "Read the rendition of a clip that browsers play.", media: "*/*", answers: map[int]any{200: nil, 206: nil, 304: nil, 416: nil}, faults: []int{404},
		},
		{
			method: http.MethodPost, path: "/v1/analyses/{id}/clips/{clip}/preview", id: "putPreview", tag: tag, needs: roleOperate, serve: s.operator(s.putPreview),
			summary: "Learn where to put such a rendition.", body: createClip{}, answers: map[int]any{200: upload{}}, faults: []int{400, 404, 413, 415},
		},
	}
}

func (s *Server) accountOperations() []operation {
	return []operation{
		{
			method: http.MethodGet, path: "/v1/accounts/{account}", id: "getAccount", tag: "accounts", needs: roleRead, serve: s.reader(s.account),
			summary: "Read what an account has left.", params: []*huma.Param{knownTag()}, answers: map[int]any{200: accountView{}, 304: nil}, faults: []int{404},
		},
		{
			method: http.MethodPost, path: "/v1/accounts/{account}/grants", id: "grantCredits", tag: "accounts", needs: roleOperate, serve: s.operator(s.grantCredits),
			summary: "Give an account credits, once per key; it is limited from then on.",
			body:    grantRequest{}, answers: map[int]any{200: accountView{}, 201: accountView{}}, faults: []int{400, 409, 413, 415},
		},
		{
			method: http.MethodGet, path: "/v1/fleet", id: "getFleet", tag: "fleet", needs: roleRead, serve: s.reader(s.fleet),
			summary: "Read queue and fleet as they are.", params: []*huma.Param{knownTag()}, answers: map[int]any{200: fleetView{}, 304: nil},
		},
		{
			method: http.MethodGet, path: "/v1/fleet/history", id: "getFleetHistory", tag: "fleet", needs: roleRead, serve: s.reader(s.history),
			summary: "Read how queue and fleet have been, at most 360 points of the queue; between two of them the largest counts.",
			params:  []*huma.Param{query("since", "How far back, 1m to 168h; 6h if missing.", textSchema()), knownTag()},
			answers: map[int]any{200: historyView{}, 304: nil}, faults: []int{400},
		},
		{
			method: http.MethodGet, path: "/v1/fleet/live", id: "followFleet", tag: "fleet", needs: roleRead, serve: patient(s.reader(s.liveFleet)),
			summary: "Follow queue and fleet by server-sent events: event fleet, now and at each change.",
			media:   "text/event-stream", answers: map[int]any{200: nil},
		},
	}
}

// processOperations are about the process itself. Whoever watches it needs no token to learn whether it lives.
func (s *Server) processOperations() []operation {
	const tag = "process"

	return []operation{
		{
			method: http.MethodGet, path: "/healthz", id: "getHealth", tag: tag, serve: s.answering(s.healthz),
			summary: "Whether the process and its database answer; 503 is a reason to restart it.", answers: map[int]any{200: healthView{}}, faults: []int{503},
		},
		{
			method: http.MethodGet, path: "/readyz", id: "getReady", tag: tag, serve: s.answering(s.readyz),
			summary: "Whether what is submitted now reaches a worker: database and Redis answer, and the process is not about to end.",
			answers: map[int]any{200: healthView{}}, faults: []int{503},
		},
		{
			method: http.MethodGet, path: "/version", id: "getVersion", tag: tag, needs: roleRead, serve: s.reader(s.showVersion),
			summary: "What was built.", answers: map[int]any{200: versionView{}},
		},
	}
}

// workerOperations are what workers send, as the contract says it word for word.
func (s *Server) workerOperations() []operation {
	signed := func(path, id, summary string, limit int64, h func(http.ResponseWriter, *http.Request, message) error, body any, answers map[int]any, faults ...int) operation {
		return operation{
			method: http.MethodPost, path: path, id: id, tag: "workers", summary: summary, signed: true, serve: s.signed(limit, h), body: body, answers: answers,
			params: []*huma.Param{header("webhook-id", "The id of the message."), header("webhook-timestamp", "Seconds since 1970.")},
			faults: append([]int{400, 404, 413}, faults...),
		}
	}

	return []operation{
		signed("/v1/claims/{id}", "redeemClaim", "Redeem a claim: lease, epoch, fresh URLs.", maxRequestBytes, s.redeem,
			protocol.RedeemRequest{}, map[int]any{200: protocol.Claim{}}, 409, 410),
		signed("/v1/claims/{id}/renew", "renewClaim", "Renew the lease.", maxRequestBytes, s.renew,
			protocol.LeaseRequest{}, map[int]any{200: protocol.LeaseAnswer{}}, 409),
		signed("/v1/claims/{id}/release", "releaseClaim", "Give the claim back.", maxRequestBytes, s.release,
			protocol.LeaseRequest{}, map[int]any{204: nil}),
		signed("/v1/claims/{id}/artifact", "grantArtifact", "Learn where to put the pose document.", maxRequestBytes, s.artifact,
			protocol.ArtifactRequest{}, map[int]any{200: protocol.ArtifactAnswer{}}, 409),
		signed("/v1/results/{id}", "postResult", "Post a result; webhook-id is res_ID_EPOCH, int_ID_EPOCH for an interruption.", protocol.MaxResultBytes, s.result,
			protocol.Result{}, map[int]any{200: protocol.ResultAnswer{}}, 409, 410, 422),
	}
}
