package page

import (
	"encoding/json"
	"net/url"
	"time"
)

// Filter is what a list was asked for. Empty fields let everything through.
type Filter struct {
	// ID is how the analysis's id begins.
	ID, Status, Account string
}

// Empty tells whether everything is shown.
func (f Filter) Empty() bool { return f == Filter{} }

// address is that of the list with this filter, from the cursor on.
func (f Filter) address(cursor string) string {
	q := url.Values{}
	for name, value := range map[string]string{"id": f.ID, "status": f.Status, "account": f.Account, "cursor": cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}

	return "/?" + q.Encode()
}

// Listing is a page of analyses. Next is empty on the last one.
type Listing struct {
	Items []Item
	Next  string
	// Statuses are those that may be chosen.
	Statuses []string
}

// Item is a line of the list.
type Item struct {
	ID, Status, Worker string
	// Name is the first clip's file name; it may be empty.
	Name             string
	Account          string
	Clips            int
	Created, Updated time.Time
}

// Analysis is one analysis. Data is the operator API's document of it, for the script.
type Analysis struct {
	ID, Status, Error, Account string
	Created                    time.Time
	Clips                      []Clip
	Timeline                   []Event
	Executions                 []Execution
	Runs                       []Run
	Credits                    []Credit
	Ledger                     []Entry
	// Actions are what the reader may do with it now.
	Actions []Action
	Data    json.RawMessage
}

// Name is the first clip's file name; it may be empty.
func (a Analysis) Name() string {
	if len(a.Clips) == 0 {
		return ""
	}

	return a.Clips[0].Name
}

// Ended tells whether the analysis has come to an end without a document, so that there is nothing to play.
func (a Analysis) Ended() bool { return a.Status == "failed" || a.Status == "cancelled" }

// Clip is one clip. Preview tells that there is a rendition which browsers play, of the type PreviewType.
type Clip struct {
	ID, Name, ContentType string
	Preview               bool
	PreviewType           string
}

// Event is a line of the timeline.
type Event struct {
	At                                  time.Time
	Kind, Worker, Source, Detail, Actor string
	Epoch                               int64
	Attempt                             int
}

// Execution is one epoch. Ended is zero while it runs.
type Execution struct {
	Epoch                             int64
	Worker, Source, End, Detail, Late string
	Attempt                           int
	Started, Ended                    time.Time
}

// Took is how long it ran, or "".
func (x Execution) Took() string {
	if x.Ended.IsZero() {
		return ""
	}

	return x.Ended.Sub(x.Started).Round(100 * time.Millisecond).String()
}

// Run is the durable run of a round.
type Run struct {
	Round              int64
	Reason, Stage, Way string
	Retries            int
	Started, Ended     time.Time
}

// Credit is the credit of a round.
type Credit struct {
	Round          int64
	Account, State string
	At, Closed     time.Time
}

// Entry is an effect that has happened.
type Entry struct {
	Effect, Instance, Outcome string
	At, Expires               time.Time
}

// Action is a button. Key makes two presses of one button one action.
type Action struct{ Name, Label, Explains, Key string }

// Fleet is queue and fleet, now and over a span of time.
type Fleet struct {
	Span  string
	Spans []string
	Facts []Fact
	// Charts are queue depth, workers and, where one is scaled, the size of the fleet.
	Charts []Chart
}

// Fact is a name with a value.
type Fact struct{ Name, Value string }
