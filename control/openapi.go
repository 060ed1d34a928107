package control

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/posefleet/posefleet/protocol"
)

// operation is one route: where it is, who may use it, what carries it out, and what is said of it. The router and the OpenAPI document
// are made of the same table, so that neither can know a route that the other does not.
type operation struct {
	method, path, id, tag string
	// summary is a sentence.
	summary string
	// serve is the handler with its guard. The operations of workers have handlers that read and verify the exact bytes.
	serve http.Handler
	needs role
	// signed: a worker's signature instead of a role. With neither everybody may ask.
	signed bool
	params []*huma.Param
	// body is a value of the request's type, nil for none; answers are those of the answers' types by status, nil for an answer without
	// a body. media is the media type of answers that are not JSON.
	body    any
	answers map[int]any
	media   string
	// faults are the statuses of problem documents, beside 5XX, which every operation may have, and 401 and 403 of those with a guard.
	faults []int
}

// describe registers the operations on the router and returns what they are.
func describe(mux *http.ServeMux, all []operation) *huma.OpenAPI {
	api := newAPI(mux)
	for _, o := range all {
		op := o.huma(api.OpenAPI().Components.Schemas)
		api.OpenAPI().AddOperation(op)
		api.Adapter().Handle(op, func(ctx huma.Context) {
			r, w := humago.Unwrap(ctx)
			o.serve.ServeHTTP(w, r)
		})
	}
	tolerate(api.OpenAPI().Components.Schemas)

	return api.OpenAPI()
}

func newAPI(mux *http.ServeMux) huma.API {
	return humago.New(mux, huma.Config{OpenAPI: &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "posefleet control plane", Version: "1",
			Description: "The operator API, and what workers send, signed. Faults are problem documents (RFC 9457) with a code. " +
				"On a loopback listener operators need no token; elsewhere one of two: the API token operates, the read token only looks (x-role).",
			License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Components: &huma.Components{
			Schemas: huma.NewMapRegistry("#/components/schemas/", schemaName),
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"bearer":  {Type: "http", Scheme: "bearer", Description: "POSEFLEET_API_TOKEN or POSEFLEET_READ_TOKEN."},
				"session": {Type: "apiKey", In: "cookie", Name: sessionCookie, Description: "What POST /login gives a browser for a token."},
				"signature": {
					Type: "apiKey", In: "header", Name: "webhook-signature",
					Description: "Standard Webhooks: webhook-id, webhook-timestamp and webhook-signature over the exact bytes, with POSEFLEET_WORKER_SECRET.",
				},
			},
		},
	}})
}

// schemaName names the schema of a type: analysisView is Analysis.
func schemaName(t reflect.Type, hint string) string {
	return strings.TrimSuffix(huma.DefaultSchemaNamer(t, hint), "View")
}

// tolerate lets readers of what the protocol sends find fields that this version does not know.
func tolerate(schemas huma.Registry) {
	for name := range schemas.Map() {
		if t := schemas.TypeFromRef("#/components/schemas/" + name); t != nil && t.PkgPath() == reflect.TypeFor[protocol.Problem]().PkgPath() {
			schemas.Map()[name].AdditionalProperties = true
		}
	}
}

// huma is the operation as the document has it.
func (o operation) huma(schemas huma.Registry) *huma.Operation {
	op := &huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Tags: []string{o.tag}, Summary: o.summary, Parameters: o.pathParams(),
		Responses: map[string]*huma.Response{}, Extensions: map[string]any{},
		Security: []map[string][]string{{"bearer": {}}, {"session": {}}},
	}
	op.Parameters = append(op.Parameters, o.params...)
	refusals := []int{http.StatusUnauthorized, http.StatusForbidden}
	switch {
	case o.signed:
		op.Security = []map[string][]string{{"signature": {}}}
	case o.needs == roleNone:
		op.Security, refusals = nil, nil
	default:
		op.Extensions["x-role"] = o.needs.String()
	}
	if o.body != nil {
		op.RequestBody = &huma.RequestBody{Required: o.signed, Content: map[string]*huma.MediaType{
			"application/json": {Schema: schemas.Schema(reflect.TypeOf(o.body), true, o.id+"Request")},
		}}
	}
	for status, v := range o.answers {
		op.Responses[strconv.Itoa(status)] = o.answer(schemas, status, v)
	}
	problem := schemas.Schema(reflect.TypeFor[protocol.Problem](), true, "Problem")
	for _, status := range append(refusals, o.faults...) {
		op.Responses[strconv.Itoa(status)] = refusal(http.StatusText(status), problem)
	}
	op.Responses["5XX"] = refusal("A fault of the server that time may heal; Retry-After says when to try again.", problem)

	return op
}

func (o operation) answer(schemas huma.Registry, status int, v any) *huma.Response {
	r := &huma.Response{Description: http.StatusText(status)}
	switch {
	case o.media != "" && status != http.StatusNotModified:
		schema := &huma.Schema{}
		if !strings.Contains(o.media, "json") {
			schema = &huma.Schema{Type: huma.TypeString}
		}
		r.Content = map[string]*huma.MediaType{o.media: {Schema: schema}}
	case v != nil:
		r.Content = map[string]*huma.MediaType{"application/json": {Schema: schemas.Schema(reflect.TypeOf(v), true, o.id+"Answer")}}
	}

	return r
}

func refusal(description string, schema *huma.Schema) *huma.Response {
	return &huma.Response{Description: description, Content: map[string]*huma.MediaType{protocol.ProblemContentType: {Schema: schema}}}
}

// pathParams are those that the path names.
func (o operation) pathParams() []*huma.Param {
	about := map[string]string{"id": "The analysis id.", "clip": "The clip's id.", "account": "The account."}
	var all []*huma.Param
	for part := range strings.SplitSeq(o.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			all = append(all, &huma.Param{Name: name, In: "path", Required: true, Description: about[name], Schema: &huma.Schema{Type: huma.TypeString}})
		}
	}

	return all
}

// serveDocument is GET /openapi.json and /openapi.yaml. It says what there is, not what is in it: nobody needs a token for it.
func (s *Server) serveDocument(mediaType string, write func() ([]byte, error)) http.HandlerFunc {
	write = sync.OnceValues(write)

	return s.answering(func(w http.ResponseWriter, _ *http.Request) error {
		body, err := write()
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Cache-Control", "no-cache")
		// The reader may be gone.
		_, _ = w.Write(body)

		return nil
	})
}
