package protocol_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/posefleet/posefleet/protocol"
)

func TestParseJobDataCodes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		data string
		code protocol.Code
	}{
		{`{"v":1,"analysisId":"an_1"}`, ""},
		{`{"v":1.0,"analysisId":"an_1"}`, ""},
		{`{"analysisId":"an_1","x":[]}`, ""},
		{`{"v":2,"analysisId":"an_1"}`, protocol.CodeUnsupportedVersion},
		{`{"v":"1","analysisId":"an_1"}`, protocol.CodeUnsupportedVersion},
		{`{"v":null,"analysisId":"an_1"}`, protocol.CodeUnsupportedVersion},
		{`{"v":2,"analysis":{"id":7}}`, protocol.CodeUnsupportedVersion},
		{`{"v":1}`, protocol.CodeInvalidJob},
		{`{"v":1,"analysisId":7}`, protocol.CodeInvalidJob},
		{`{"v":1,"analysisId":""}`, protocol.CodeInvalidJob},
		{`null`, protocol.CodeInvalidJob},
		{`[]`, protocol.CodeInvalidJob},
		{`"x"`, protocol.CodeInvalidJob},
		{``, protocol.CodeInvalidJob},
		{`{`, protocol.CodeInvalidJob},
		{`{"v":1,"analysisId":"123"}`, protocol.CodeInvalidID},
		{`{"v":1,"analysisId":"meta"}`, protocol.CodeInvalidID},
		{`{"v":1,"analysisId":"a:b"}`, protocol.CodeInvalidID},
	}
	for _, tc := range tests {
		got, err := protocol.ParseJobData([]byte(tc.data))
		if tc.code == "" {
			if want := protocol.NewJobData("an_1"); err != nil || got != want {
				t.Errorf("%s: %+v, %v", tc.data, got, err)
			}
			continue
		}
		fault, ok := errors.AsType[*protocol.Fault](err)
		if !ok || fault.Code != tc.code || fault.Retryable {
			t.Errorf("%s: %v, want %s", tc.data, err, tc.code)
		}
	}
}

func TestParseDoorRequestCodes(t *testing.T) {
	t.Parallel()
	for data, code := range map[string]protocol.Code{
		`{"v":1,"analysisId":"an_1","x":1}`: protocol.CodeInvalidRequest, `{"analysisId":"an_1"} {}`: protocol.CodeInvalidRequest,
		`{"analysisId":"an_1","analysisId":"an_2"}`: protocol.CodeInvalidRequest, `{"v":1,"analysisId":"an_1","v":1}`: protocol.CodeInvalidRequest,
		`{"analysisId":5}`: protocol.CodeInvalidRequest, `{}`: protocol.CodeInvalidRequest, `null`: protocol.CodeInvalidRequest,
		`{"v":2,"analysisId":"an_1"}`: protocol.CodeUnsupportedVersion, `{"analysisId":"5"}`: protocol.CodeInvalidID, ``: protocol.CodeInvalidRequest,
	} {
		_, err := protocol.ParseDoorRequest([]byte(data))
		if fault, ok := errors.AsType[*protocol.Fault](err); !ok || fault.Code != code {
			t.Errorf("%s: %v, want %s", data, err, code)
		}
	}
}

// What the schema can't say, or says more strictly than the reader.
func TestParseClaim(t *testing.T) {
	t.Parallel()
	const clip = `{"id":"%s","url":"https://a.test/x"}`
	claim := func(clips string, more string) []byte {
		return []byte(`{"analysisId":"an_1","claim":"c","epoch":1,"callback":{"url":"https://a.test/cb"},"clips":[` + clips + `]` + more + `}`)
	}
	if _, _, err := protocol.ParseClaim(claim(fmt.Sprintf(clip+","+clip, "c1", "c1"), ""), "an_1"); err == nil {
		t.Error("an id twice is accepted")
	}
	if _, _, err := protocol.ParseClaim(claim(fmt.Sprintf(clip, "c1"), ""), "an_2"); err == nil {
		t.Error("a claim for another analysis is accepted")
	}
	for more, want := range map[string]string{``: `{}`, `,"params":null`: `{}`, `,"params":{"x": 1}`: `{"x": 1}`} {
		got, params, err := protocol.ParseClaim(claim(fmt.Sprintf(clip, "c1"), more), "an_1")
		if err != nil || string(params) != want {
			t.Errorf("%s: %s, %v", more, params, err)
		}
		if got.Clips[0].Size != nil || got.Clips[0].ExpiresAt != nil || got.Artifact != nil {
			t.Errorf("made up: %+v", got)
		}
	}
}

func TestHeadersAreAnObject(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(protocol.ClaimClip{ID: "c1", URL: "u"})
	if err != nil || string(body) != `{"id":"c1","url":"u","headers":{}}` {
		t.Errorf("%s, %v", body, err)
	}
}

func completed() protocol.Result {
	return protocol.Result{Type: protocol.ResultCompleted, Timestamp: time.Unix(1_796_000_000, 0).UTC(), Data: protocol.ResultData{
		AnalysisID: "an_1", Claim: "c", Epoch: 7, Attempt: 1, WorkerID: "w",
		Artifact: &protocol.Artifact{Key: "k", Size: 1, SHA256: strings.Repeat("a", 64)},
		Model:    &protocol.Model{Name: "m"}, Timings: &protocol.Timings{},
		Clips: []protocol.ResultClip{{ID: "c1", Frames: 1, Width: 1, Height: 1, DurationMs: 1.5, Quality: json.RawMessage(`{"a":1}`)}},
	}}
}

func TestFitClips(t *testing.T) {
	t.Parallel()
	short := completed().Data.Clips
	if got := protocol.FitClips(short); cmp.Diff(short, got) != "" {
		t.Errorf("short clips were changed: %s", cmp.Diff(short, got))
	}
	long := slices.Clone(short)
	long[0].Quality = json.RawMessage(`"` + strings.Repeat("x", protocol.MaxResultBytes) + `"`)
	got := protocol.FitClips(long)
	if got[0].Quality != nil || got[0].Frames != long[0].Frames {
		t.Errorf("got %+v, want the clip without its quality", got[0])
	}
	if long[0].Quality == nil {
		t.Error("the caller's clips were changed")
	}
}

func TestMarshalResult(t *testing.T) {
	t.Parallel()
	r := completed()
	body, err := protocol.MarshalResult(r)
	if err != nil || !bytes.Contains(body, []byte(`"quality":{"a":1}`)) {
		t.Fatalf("%s, %v", body, err)
	}
	back, err := protocol.ParseResult(body)
	if err != nil || cmp.Diff(r, back) != "" {
		t.Errorf("%v %s", err, cmp.Diff(r, back))
	}

	r.Data.Clips[0].Quality = json.RawMessage(`"` + strings.Repeat("x", protocol.MaxResultBytes) + `"`)
	body, err = protocol.MarshalResult(r)
	if err != nil || bytes.Contains(body, []byte("quality")) {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	if r.Data.Clips[0].Quality == nil {
		t.Error("the caller's result was changed")
	}

	failed := completed()
	failed.Type = protocol.ResultFailed
	failed.Data.Error = &protocol.ResultError{Code: protocol.CodeInternal, Message: strings.Repeat("ä€", protocol.MaxResultBytes)}
	body, err = protocol.MarshalResult(failed)
	if err != nil || len(body) > protocol.MaxResultBytes || !utf8.Valid(body) || bytes.Contains(body, []byte(`�`)) || !bytes.Contains(body, []byte(`…"`)) {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	if len(failed.Data.Error.Message) != 5*protocol.MaxResultBytes {
		t.Error("the caller's message was changed")
	}

	incomplete := completed()
	incomplete.Data.Artifact = nil
	if _, err := protocol.MarshalResult(incomplete); err == nil {
		t.Error("a completed result without an artifact passes")
	}
}

// The bounds of a claim keep every result within its limit, so that no delivery can fail for its size.
func TestLargestResultFits(t *testing.T) {
	t.Parallel()
	r := completed()
	r.Data.AnalysisID, r.Data.Claim = strings.Repeat("a", protocol.MaxIDLength), strings.Repeat("c", 256)
	r.Data.WorkerID, r.Data.Artifact.Key = strings.Repeat("w", 256), strings.Repeat("k", protocol.MaxKeyLength)
	r.Data.Model = &protocol.Model{Name: strings.Repeat("n", 256), Version: strings.Repeat("v", 256), SHA256: strings.Repeat("a", 64)}
	r.Data.Clips = nil
	for i := range protocol.MaxClips {
		id := fmt.Sprintf("%03d%s", i, strings.Repeat("x", 61))
		r.Data.Clips = append(r.Data.Clips, protocol.ResultClip{ID: id, Frames: 1e6, Width: 8192, Height: 8192, DurationMs: 1800000.12345, Quality: json.RawMessage(`{"a":1}`)})
	}
	body, err := protocol.MarshalResult(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the largest result has %d of %d bytes", len(body), protocol.MaxResultBytes)
}

func TestResultID(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"res_an_1_7": protocol.ResultID(protocol.ResultCompleted, "an_1", 7),
		"res_an_1_8": protocol.ResultID(protocol.ResultFailed, "an_1", 8),
		"int_an_1_7": protocol.ResultID(protocol.ResultInterrupted, "an_1", 7),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Every code constant of codes.go is in the table once, and the verdict of media codes is permanent.
func TestCodesAreComplete(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("codes.go")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && len(spec.Values) == 1 && strings.HasPrefix(spec.Names[0].Name, "Code") {
			declared[strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`)] = true
		}
		return true
	})
	seen := map[string]bool{}
	for _, info := range protocol.Codes() {
		name := string(info.Code)
		if seen[name] || !declared[name] || info.Meaning == "" {
			t.Errorf("%s is twice in the table, not declared or without a meaning", name)
		}
		seen[name] = true
		if info.Code.IsMediaFault() && info.Retryable {
			t.Errorf("%s blames the clip and is retryable", name)
		}
	}
	for name := range declared {
		if !seen[name] {
			t.Errorf("%s is not in the table", name)
		}
	}
	if !protocol.Code("gpu_on_fire").Retryable() || protocol.CodeInputMissing.Retryable() {
		t.Error("verdict of a foreign or a permanent code")
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	cause := errors.New("secret detail")
	fault := protocol.NewFault(protocol.CodeInvalidMedia, "the clip can't be read").WithCause(cause)
	if fault.Error() != "invalid_media: the clip can't be read" || !errors.Is(fault, cause) {
		t.Error(fault)
	}
	if got := protocol.AsFault(fmt.Errorf("job an_1: %w", fault)); got != fault {
		t.Error(got)
	}
	if got := protocol.AsFault(cause); got.Code != protocol.CodeInternal || !got.Retryable || strings.Contains(got.Error(), "secret") {
		t.Error(got)
	}
}

func TestValidIDsAreWhatBullMQTakes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[A-Za-z0-9_-]{1,130}`).Draw(t, "id")
		if protocol.ValidateID(id) != nil {
			return
		}
		if len(id) > 128 || strings.Trim(id, "0123456789") == "" && id[0] != '0' {
			t.Fatalf("%q passes", id)
		}
	})
}

func FuzzParseJobData(f *testing.F) {
	f.Add([]byte(`{"v":1,"analysisId":"an_1"}`))
	f.Add([]byte(`{"v":1e0,"analysisId":"an_1","x":{"y":[null]}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		job, err := protocol.ParseJobData(data)
		if err == nil {
			err = protocol.ValidateID(job.AnalysisID)
			if err != nil || job.V != protocol.JobVersion {
				t.Fatalf("%q gives %+v", data, job)
			}
			return
		}
		if fault, ok := errors.AsType[*protocol.Fault](err); !ok || fault.Retryable {
			t.Fatalf("%q: %v", data, err)
		}
	})
}

func FuzzParseClaim(f *testing.F) {
	f.Add([]byte(`{"analysisId":"an_1","claim":"c","epoch":1,"callback":{"url":"https://a/"},"clips":[{"id":"c1","url":"https://a/"}],"params":{"model":"x"}}`))
	f.Add([]byte(`{"artifact":{"key":"k","size":1,"sha256":"x","model":{},"clips":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		claim, params, err := protocol.ParseClaim(data, "an_1")
		if err != nil {
			return
		}
		for _, clip := range claim.Clips {
			if !protocol.ValidClipID(clip.ID) || strings.ContainsAny(clip.ID, "/\x00") {
				t.Fatalf("clip id %q", clip.ID)
			}
		}
		if !json.Valid(params) || len(claim.Clips) == 0 {
			t.Fatalf("params %q", params)
		}
	})
}

func FuzzParseExtractorMessage(f *testing.F) {
	f.Add([]byte(`{"type":"hello","protocol":1,"name":"x","model":{"name":"m","version":"1","sha256":"` + strings.Repeat("a", 64) + `"}}`))
	f.Add([]byte(`{"type":"result","job":"an_1","artifact":"../x","contentType":"a","clips":[{"id":"c1"}]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := protocol.ParseExtractorMessage(line)
		if r, ok := m.(protocol.ExtractorResult); err == nil && ok && strings.ContainsAny(r.Artifact, "/") {
			t.Fatalf("artifact %q", r.Artifact)
		}
	})
}
