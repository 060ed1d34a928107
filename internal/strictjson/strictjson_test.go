package strictjson_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/strictjson"
)

type clip struct {
	Size int `json:"size"`
}

type request struct {
	Dispatch string          `json:"dispatch"`
	Clips    []*clip         `json:"clips"`
	Params   json.RawMessage `json:"params"`
	Labels   map[string]clip `json:"labels"`
	Round    *int64          `json:"round,omitempty"`
	Plain    string
}

func TestUnmarshal(t *testing.T) {
	t.Parallel()

	tests := []struct{ name, text, fault string }{
		{"all", `{"dispatch":"queue","clips":[{"size":1},null],"params":{"x":[1,{}]},"labels":{"any":{"size":1}},"round":1,"Plain":""}`, ""},
		{"nothing", `{}`, ""},
		{"null", `null`, ""},
		{"below what reads itself", `{"params":{"anything":{"model":1}}}`, ""},
		{"unknown", `{"dispach":"none"}`, `field "dispach" is not known`},
		{"another case", `{"Dispatch":"none"}`, `field "Dispatch" is not known`},
		{"without a tag in another case", `{"plain":""}`, `field "plain" is not known`},
		{"twice", `{"dispatch":"none","dispatch":"queue"}`, `field "dispatch" comes twice`},
		{"twice by an escape", `{"dispatch":"none","d\u0069spatch":"queue"}`, `field "dispatch" comes twice`},
		{"unknown below", `{"clips":[{"size":1},{"sise":1}]}`, `field "clips[1].sise" is not known`},
		{"twice below", `{"clips":[{"size":1,"size":2}]}`, `field "clips[0].size" comes twice`},
		{"unknown in a map", `{"labels":{"a":{"b":1}}}`, `field "labels.a.b" is not known`},
		{"twice in a map", `{"labels":{"a":{},"a":{}}}`, `field "labels.a" comes twice`},
		{"twice where all is good", `{"params":{"a":{"b":1,"b":2}}}`, `field "params.a.b" comes twice`},
		{"long", `{"` + strings.Repeat("x", 1000) + `":1}`, `xx" is not known`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			var r request

			err := strictjson.Unmarshal([]byte(tt.text), &r)
			if tt.fault == "" {
				if err != nil {
					t.Error(err)
				}

				return
			}

			if _, ok := errors.AsType[*strictjson.FieldError](err); !ok || !strings.Contains(err.Error(), tt.fault) || len(err.Error()) > 120 {
				t.Errorf("%v, want %s", err, tt.fault)
			}
		})
	}
}

// TestNotJSON: what encoding/json refuses stays refused, in its words.
func TestNotJSON(t *testing.T) {
	t.Parallel()

	for _, text := range []string{``, `{`, `{} {}`, `{"dispatch":1}`, `[]`, strings.Repeat("[", 20_000)} {
		var r request
		if want, got := json.Unmarshal([]byte(text), &r), strictjson.Unmarshal([]byte(text), &r); got == nil || got.Error() != want.Error() {
			t.Errorf("%.20q: %v, want %v", text, got, want)
		}
	}
}

// FuzzUnmarshal: whatever comes, there is an answer, and nothing is taken that encoding/json refuses.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"clips":[{"size":1}],"params":{"a":[[{}]]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var a, b request
		if err := strictjson.Unmarshal(data, &a); err == nil && json.Unmarshal(data, &b) != nil {
			t.Errorf("%q is taken", data)
		}
	})
}
