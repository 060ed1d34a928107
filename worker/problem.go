package worker

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// answer is one answer of the HTTP door, kept so that a repeated request is answered alike.
type answer struct {
	status  int
	body    any
	problem bool
	// location and retryAfter are headers; empty and 0 mean none.
	location   string
	retryAfter time.Duration
	// closing asks the client to go elsewhere with its connection.
	closing bool
}

// refusal is an answer that is a problem document.
func refusal(status int, code protocol.Code, detail string) answer {
	return answer{status: status, problem: true, body: protocol.Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Code: code,
	}}
}

func (a answer) after(d time.Duration) answer {
	a.retryAfter = d
	return a
}

// write sends the answer.
func (a answer) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if a.location != "" {
		h.Set("Location", a.location)
	}
	if a.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(a.retryAfter.Seconds()))))
	}
	if a.closing {
		h.Set("Connection", "close")
	}
	if a.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "StandardWebhooks")
	}
	h.Set("Content-Type", "application/json")
	if a.problem {
		h.Set("Content-Type", protocol.ProblemContentType)
	}
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(a.body) // the client may be gone; nothing depends on it
}
