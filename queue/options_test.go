package queue

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestCheckJobID(t *testing.T) {
	t.Parallel()

	for id, ok := range map[string]bool{
		"an_1": true, "00123": true, "1.5": true, "-": true, "ü": true, strings.Repeat("x", 300): true, "1e3": true,
		"de305d54-75b4-431b-adb2-eb6b9e546014": true, "-0": true,
		"123": false, "0": false, "-5": false, "a:b": false, "a:b:c": false, "0:x": false, "meta": false, "wait": false, "metrics": false,
		"repeat": false, "stalled-check": false,
	} {
		if err := checkJobID(id); (err == nil) != ok || err != nil && !errors.Is(err, ErrBadJobID) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()

	for _, name := range []string{"", "a:b"} {
		if _, err := newKeys("", name); !errors.Is(err, ErrBadName) {
			t.Errorf("name %q: %v", name, err)
		}
	}

	for prefix, tagged := range map[string]bool{"bull": false, "{bull}": true, "{}": false, "a{b": false, "x{y}z": true} {
		k, err := newKeys(prefix, "q")
		if err != nil || k.hashTagged() != tagged {
			t.Errorf("prefix %q: tagged %v, %v", prefix, k.hashTagged(), err)
		}
	}

	k, _ := newKeys("bull", "my queue")
	if got := k.clientName(":w:w1"); got != "bull:bXkgcXVldWU=:w:w1" {
		t.Error(got)
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()

	q, err := NewQueue(Options{RedisURL: "redis://127.0.0.1:1", Name: "q"})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()

	for name, o := range map[string]JobOptions{
		"priority too large": {Priority: MaxPriority + 1},
		"priority below 0":   {Priority: -1},
		"two child options":  {FailParentOnFailure: true, IgnoreDependencyOnFailure: true},
		"dedup without id":   {Deduplication: &Deduplication{}},
		"dedup of a child":   {Deduplication: &Deduplication{ID: "d"}, Parent: &ParentRef{ID: "p", Queue: "bull:q"}},
		"jitter":             {Backoff: &Backoff{Type: "fixed", Jitter: 2}},
		"size":               {SizeLimit: 3},
		"delay":              {Delay: -1},
	} {
		if _, err := q.Add(t.Context(), "n", json.RawMessage(`"long"`), o); !errors.Is(err, ErrBadOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}

	if _, err := q.Add(t.Context(), "n", json.RawMessage(`{`), JobOptions{}); !errors.Is(err, errInvalidJSON) {
		t.Errorf("invalid data: %v", err)
	}
}

func TestKeepForms(t *testing.T) {
	t.Parallel()

	for _, test := range []struct {
		text              string
		count, age, limit string
		back              string
	}{
		{"true", "0", "", "", "true"},
		{"false", "", "", "", "false"},
		{"0", "0", "", "", "true"},
		{"-1", "", "", "", "false"},
		{"7", "7", "", "", "7"},
		{`{"count":0}`, "0", "", "", "true"},
		{`{"count":5}`, "5", "", "", "5"},
		{`{"age":60}`, "", "60", "", `{"age":60}`},
		{`{"age":0}`, "", "0", "", `{"age":0}`},
		{`{"age":60,"count":5,"limit":7}`, "5", "60", "7", `{"age":60,"count":5,"limit":7}`},
		{`{}`, "", "", "", "false"},
	} {
		var k Keep
		if err := json.Unmarshal([]byte(test.text), &k); err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}

		count, age, limit := k.args()
		if count != test.count || age != test.age || limit != test.limit {
			t.Errorf("%s: %q %q %q", test.text, count, age, limit)
		}

		if back, err := json.Marshal(k); err != nil || string(back) != test.back {
			t.Errorf("%s: written as %s, %v", test.text, back, err)
		}
	}

	if err := new(Keep).UnmarshalJSON([]byte(`"x"`)); err == nil {
		t.Error("a text is taken for a keep rule")
	}
}

// What is written can be read back, unknown options included.
func TestOptionsRoundTrip(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "ms")) * time.Millisecond
		})
		keep := rapid.Ptr(rapid.Custom(func(t *rapid.T) Keep {
			if rapid.Bool().Draw(t, "now") {
				return Keep{Now: true}
			}

			return Keep{Count: rapid.IntRange(0, 9).Draw(t, "count"), Age: time.Duration(rapid.IntRange(0, 9).Draw(t, "age")) * time.Second}
		}), true)
		want := JobOptions{
			JobID: rapid.String().Draw(t, "id"), Attempts: rapid.IntRange(0, 99).Draw(t, "attempts"), Delay: ms.Draw(t, "delay"),
			Priority: rapid.IntRange(0, MaxPriority).Draw(t, "priority"), LIFO: rapid.Bool().Draw(t, "lifo"),
			RemoveOnComplete: keep.Draw(t, "complete"), RemoveOnFail: keep.Draw(t, "fail"),
			StackTraceLimit: rapid.Ptr(rapid.IntRange(0, 9), true).Draw(t, "stack"), KeepLogs: rapid.IntRange(0, 9).Draw(t, "logs"),
			Telemetry: rapid.String().Draw(t, "tm"), FailParentOnFailure: rapid.Bool().Draw(t, "fpof"),
			Backoff: &Backoff{Type: "exponential", Delay: ms.Draw(t, "backoff"), Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter")},
			Parent:  &ParentRef{ID: "p", Queue: "bull:q"}, Deduplication: &Deduplication{ID: "d", TTL: time.Second, Replace: true},
			Extra: map[string]json.RawMessage{"other": json.RawMessage(`{"a":1}`)},
		}

		text, err := encodeOptions(&want)
		if err != nil {
			t.Fatal(err)
		}

		got, err := decodeOptions(string(text))
		if err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Keep{})); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzDecodeJob(f *testing.F) {
	f.Add(`{"attempts":3,"backoff":1000}`, "1500.7", `["a"]`)
	f.Add(`{"backoff":{"type":5},"removeOnFail":[],"de":null}`, "x", `{`)
	f.Fuzz(func(t *testing.T, opts, number, stack string) {
		j, err := decodeJob("1", map[string]string{"opts": opts, "delay": number, "atm": number, "timestamp": number, "stacktrace": stack})
		if err == nil {
			if _, err := encodeOptions(&j.Opts); err != nil {
				t.Fatalf("options can be read and not be written: %v", err)
			}
		}
	})
}

func TestRetryDelay(t *testing.T) {
	t.Parallel()

	half := func() float64 { return 0.5 }
	second := time.Second

	for _, test := range []struct {
		b       *Backoff
		attempt int
		want    time.Duration
		known   bool
	}{
		{nil, 1, 0, true},
		{&Backoff{Type: "fixed", Delay: second}, 5, second, true},
		{&Backoff{Type: "exponential", Delay: second}, 1, second, true},
		{&Backoff{Type: "exponential", Delay: second}, 3, 4 * second, true},
		{&Backoff{Type: "exponential", Delay: second, Jitter: 0.5}, 3, 3 * second, true},
		{&Backoff{Type: "exponential"}, 3, 0, true},
		{&Backoff{Type: "exponential", Delay: second}, 500, math.MaxInt64, true},
		{&Backoff{Type: "mine", Delay: second}, 1, 0, false},
	} {
		if got, known := test.b.retryDelay(test.attempt, half); got != test.want || known != test.known {
			t.Errorf("%+v attempt %d: %v, %v; want %v", test.b, test.attempt, got, known, test.want)
		}
	}
}

func TestParseRedisURL(t *testing.T) {
	t.Parallel()

	for _, test := range []struct {
		url  string
		want string // addresses, user, password, db, master, tls, cluster; "" = refused
	}{
		{"redis://127.0.0.1:6379/0", "[127.0.0.1:6379]   0  false false"},
		{"redis://h", "[h:6379]   0  false false"},
		{"redis://[::1]:7/3", "[[::1]:7]   3  false false"},
		{"redis://u:p%40w@h:1/2", "[h:1] u p@w 2  false false"},
		{"rediss://:secret@h:1", "[h:1]  secret 0  true false"},
		{"redis://a:1,b:2,c:3", "[a:1 b:2 c:3]   0  false true"},
		{"redis://a:1,redis://b:2", "[a:1 b:2]   0  false true"},
		{"redis+sentinel://a:1,b/mymaster/4", "[a:1 b:26379]   4 mymaster false false"},
		{"redis+sentinel://a:1/m", "[a:1]   0 m false false"},
		{"rediss+sentinel://u:p@a:1,b:2/m?sentinel_username=x", "[a:1 b:2] u p 0 m true false"},
		{"redis+cluster://a", "[a:6379]   0  false true"},
		{"rediss+cluster://a:1,b:2", "[a:1 b:2]   0  true true"},
		{"rediss://h?tls_server_name=n&tls_skip_verify=true", "[h:6379]   0  true false"},
		{"rediss://h?tls_skip_verify=perhaps", ""},
		{"rediss://h?tls_ca_file=/nowhere/secret", ""},
		{"rediss://h?tls_cert_file=/etc/hostname", ""},
		{"redis://h?tls_skip_verify=true", ""},
		{"redis+cluster://a/1", ""},
		{"redis+sentinel://a:1", ""},
		{"redis://a:1,b:2/1", ""},
		{"http://h", ""},
		{"h:6379", ""},
		{"redis://", ""},
		{"redis://h:0", ""},
		{"redis://h:99999", ""},
		{"redis://h/x", ""},
		{"redis://h?what=1", ""},
		{"redis://onlyuser@h", ""},
	} {
		o, err := ParseRedisURL(test.url)
		if err != nil {
			if test.want != "" || !errors.Is(err, ErrBadRedisURL) {
				t.Errorf("%s: %v", test.url, err)
			}

			continue
		}

		if got := describeOptions(o); got != test.want {
			t.Errorf("%s: %q, want %q", test.url, got, test.want)
		}
	}

	for _, secret := range []string{"redis://u:geheim@h:x", "rediss://h?tls_ca_file=/geheim", "rediss://h?tls_cert_file=/geheim&tls_key_file=/geheim"} {
		if _, err := ParseRedisURL(secret); err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%v", err)
		}
	}

	if _, err := NewQueue(Options{RedisURL: "redis://a:1,b:2", Name: "q"}); !errors.Is(err, ErrBadName) {
		t.Errorf("a cluster without a hash tag: %v", err)
	}
}

func TestWorkerOptionsAreChecked(t *testing.T) {
	t.Parallel()

	good := DefaultWorkerOptions()
	good.RedisURL, good.Name = "redis://h", "q"

	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}

	for name, spoil := range map[string]func(*WorkerOptions){
		"no name":                func(o *WorkerOptions) { o.Name = "" },
		"no address":             func(o *WorkerOptions) { o.RedisURL = "" },
		"no concurrency":         func(o *WorkerOptions) { o.Concurrency = 0 },
		"renewal after the lock": func(o *WorkerOptions) { o.LockRenewTime = o.LockDuration },
		"no stalled interval":    func(o *WorkerOptions) { o.StalledInterval = 0 },
		"negative stalled count": func(o *WorkerOptions) { o.MaxStalledCount = -1 },
		"block too long":         func(o *WorkerOptions) { o.DrainDelay = time.Minute },
		"limiter without max":    func(o *WorkerOptions) { o.Limiter = &Limiter{} },
	} {
		o := good
		spoil(&o)

		if _, err := NewWorker(o, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
