package ecs_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	accessKey = "AKIDTEST"
	secretKey = "not-a-secret"
	region    = "eu-central-1"
	cluster   = "prod"
	service   = "pose"
)

// api is ECS over HTTP: JSON 1.1 calls with signatures, which are checked; counts that show late; throttling, and other refusals.
type api struct {
	t   *testing.T
	url string

	mu        sync.Mutex
	desired   int
	shown     int // what DescribeServices says
	tasks     []*fakeTask
	calls     []string
	throttle  int    // that many calls are refused
	refuse    string // an exception for every call
	lostReply bool   // the next update happens, and its answer is lost
}

type fakeTask struct {
	id        string
	protected bool
	health    string
	started   time.Time
}

func (f *fakeTask) arn() string {
	return "arn:aws:ecs:" + region + ":123456789012:task/" + cluster + "/" + f.id
}

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{t: t}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	a.url = s.URL

	return a
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil || !a.authentic(r, body) {
		fail(w, "InvalidSignatureException")

		return
	}
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	a.calls = append(a.calls, op)
	var in struct {
		Cluster, Service, ServiceName string
		Services, Tasks               []string
		DesiredCount                  *int
		ForceNewDeployment            bool
	}
	switch err := json.Unmarshal(body, &in); {
	case err != nil || in.Cluster != cluster || in.ForceNewDeployment:
		fail(w, "InvalidParameterException")
	case a.throttle > 0:
		a.throttle--
		fail(w, "ThrottlingException")
	case a.refuse != "":
		fail(w, a.refuse)
	case op == "UpdateService" && in.DesiredCount == nil:
		fail(w, "InvalidParameterException")
	case op == "UpdateService":
		a.desired = *in.DesiredCount
		if a.lostReply {
			a.lostReply = false
			panic(http.ErrAbortHandler)
		}
		say(w, map[string]any{"service": map[string]any{"desiredCount": a.desired}})
	default:
		a.describe(w, op, in.Services, in.Tasks)
	}
}

func (a *api) describe(w http.ResponseWriter, op string, services, tasks []string) {
	var arns []string
	var described, protections []map[string]any
	for _, task := range a.tasks {
		arns = append(arns, task.arn())
		if strings.Contains(strings.Join(tasks, " "), task.arn()) {
			described = append(described, map[string]any{
				"taskArn": task.arn(), "lastStatus": "RUNNING", "healthStatus": task.health, "startedAt": float64(task.started.Unix()),
			})
			protections = append(protections, map[string]any{"taskArn": task.arn(), "protectionEnabled": task.protected})
		}
	}
	switch {
	case op == "DescribeServices" && len(services) == 1 && services[0] == service:
		say(w, map[string]any{"services": []any{map[string]any{
			"status": "ACTIVE", "desiredCount": a.shown, "runningCount": len(a.tasks), "serviceName": service,
		}}})
	case op == "DescribeServices":
		say(w, map[string]any{"services": []any{}, "failures": []any{map[string]any{"reason": "MISSING"}}})
	case op == "ListTasks":
		say(w, map[string]any{"taskArns": arns})
	case op == "DescribeTasks":
		say(w, map[string]any{"tasks": described})
	case op == "GetTaskProtection":
		say(w, map[string]any{"protectedTasks": protections})
	default:
		fail(w, "InvalidAction")
	}
}

func say(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.NewEncoder(w).Encode(v) // the client sees what is missing
}

func fail(w http.ResponseWriter, code string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, `{"__type":%q,"message":"as the test wants it"}`, code)
}

// authentic verifies the signature (SigV4) from its definition, not with the SDK that made it.
func (a *api) authentic(r *http.Request, body []byte) bool {
	fields := map[string]string{}
	scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		fields[name] = value
	}
	date := r.Header.Get("X-Amz-Date")
	at, err := time.Parse("20060102T150405Z", date)
	if err != nil || scheme != "AWS4-HMAC-SHA256" || time.Since(at).Abs() > 5*time.Minute {
		return false
	}
	scope := strings.Join([]string{date[:8], region, "ecs", "aws4_request"}, "/")
	if fields["Credential"] != accessKey+"/"+scope {
		return false
	}
	var canonical strings.Builder
	fmt.Fprintf(&canonical, "%s\n%s\n%s\n", r.Method, r.URL.EscapedPath(), r.URL.RawQuery)
	for name := range strings.SplitSeq(fields["SignedHeaders"], ";") {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = strconv.FormatInt(r.ContentLength, 10)
		}
		fmt.Fprintf(&canonical, "%s:%s\n", name, strings.TrimSpace(value))
	}
	fmt.Fprintf(&canonical, "\n%s\n%s", fields["SignedHeaders"], digest(body))
	text := strings.Join([]string{"AWS4-HMAC-SHA256", date, scope, digest([]byte(canonical.String()))}, "\n")
	key := []byte("AWS4" + secretKey)
	for _, part := range []string{date[:8], region, "ecs", "aws4_request", text} {
		key = mac(key, part)
	}

	return hmac.Equal([]byte(hex.EncodeToString(key)), []byte(fields["Signature"]))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)

	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))

	return h.Sum(nil)
}
