package control

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"time"

	"github.com/posefleet/posefleet/control/page"
	"github.com/posefleet/posefleet/control/store"
)

// pageSource lets the page read what it shows.
type pageSource struct{ s *Server }

// List reads a page of analyses.
func (p pageSource) List(ctx context.Context, f page.Filter, cursor string) (page.Listing, error) {
	out := page.Listing{}
	for _, s := range statuses() {
		out.Statuses = append(out.Statuses, string(s))
	}
	request, err := pageRequest(map[string][]string{"id": {f.ID}, "status": {f.Status}, "account": {f.Account}, "cursor": {cursor}})
	if err != nil {
		return out, err
	}
	all, err := p.s.store.Analyses(ctx, request)
	out.Next = all.Next
	for _, a := range all.Analyses {
		item := page.Item{
			ID: a.ID, Status: string(a.Status), Account: a.Account, Clips: len(a.Clips), Worker: a.Holder.WorkerID, Created: a.CreatedAt, Updated: a.UpdatedAt,
		}
		if len(a.Clips) > 0 {
			item.Name = a.Clips[0].Name
		}
		out.Items = append(out.Items, item)
	}

	return out, err
}

// Analysis reads one analysis.
func (p pageSource) Analysis(ctx context.Context, id string) (page.Analysis, error) {
	v, err := p.s.fullView(ctx, id)
	if err != nil {
		return page.Analysis{}, err
	}
	out := page.Analysis{ID: v.AnalysisID, Status: string(v.Status), Error: v.Error, Account: v.Account, Created: v.CreatedAt}
	if out.Data, err = json.Marshal(v); err != nil {
		return out, err
	}
	for _, c := range v.Clips {
		clip := page.Clip{ID: c.ID, Name: c.Name, ContentType: c.ContentType}
		// A storage that is away costs the preview, not the page.
		if o, err := p.s.storage.Stat(ctx, previewKey(id, c.ID)); err == nil {
			clip.Preview, clip.PreviewType = true, o.ContentType
		}
		out.Clips = append(out.Clips, clip)
	}
	fillRecord(&out, v)
	if c, _ := ctx.Value(callerKey{}).(caller); c.role >= roleOperate {
		out.Actions = p.actions(v)
	}

	return out, nil
}

// fillRecord copies everything that touched the analysis.
func fillRecord(out *page.Analysis, v analysisView) {
	for _, e := range v.Timeline {
		line := page.Event{At: e.At, Kind: e.Kind, Epoch: e.Epoch, Detail: e.Detail, Actor: e.Actor}
		if e.Holder != nil {
			line.Worker, line.Source, line.Attempt = e.Holder.WorkerID, string(e.Holder.Source), e.Holder.Attempt
		}
		out.Timeline = append(out.Timeline, line)
	}
	for _, x := range v.Executions {
		line := page.Execution{Epoch: x.Epoch, End: x.End, Detail: x.Detail, Late: x.Late, Started: x.StartedAt, Ended: timeOf(x.EndedAt)}
		if x.Holder != nil {
			line.Worker, line.Source, line.Attempt = x.Holder.WorkerID, string(x.Holder.Source), x.Holder.Attempt
		}
		out.Executions = append(out.Executions, line)
	}
	for _, r := range v.Runs {
		out.Runs = append(out.Runs, page.Run{
			Round: r.Round, Reason: string(r.Reason), Stage: r.Stage, Way: string(r.Way), Retries: r.Retries, Started: r.StartedAt, Ended: timeOf(r.EndedAt),
		})
	}
	for _, c := range v.Credits {
		out.Credits = append(out.Credits, page.Credit{Round: c.Round, Account: c.Account, State: string(c.State), At: c.ReservedAt, Closed: timeOf(c.ClosedAt)})
	}
	for _, e := range v.Ledger {
		out.Ledger = append(out.Ledger, page.Entry{Effect: string(e.Effect), Instance: e.Instance, Outcome: e.Outcome, At: e.At, Expires: e.Expires})
	}
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}

	return *t
}

// actions are the buttons that make sense for an analysis in this state.
func (p pageSource) actions(v analysisView) []page.Action {
	var all []page.Action
	add := func(name, label, explains string) {
		all = append(all, page.Action{Name: name, Label: label, Explains: explains, Key: rand.Text()})
	}
	if v.Status == store.StatusFailed {
		add("retry", "Retry", "Runs it again in a new round, for another credit.")
	}
	if !v.Status.Terminal() {
		add("cancel", "Cancel", "Ends it for good and gives the credit back.")
	}
	if v.Status.Terminal() && p.s.cfg.NoticeURL != "" {
		add("redeliver", "Redeliver", "Sends the notice of the outcome again, with the same id.")
	}

	return all
}

// pageSpans are the spans of time that the page offers.
func pageSpans() []string { return []string{"1h", "6h", "24h", "168h"} }

// Fleet reads queue and fleet over a span of time.
func (p pageSource) Fleet(ctx context.Context, span string) (page.Fleet, error) {
	d, err := historySpan(span)
	if err != nil {
		return page.Fleet{}, err
	}
	if span == "" {
		span = "6h"
	}
	now, err := p.s.fleetNow(ctx)
	if err != nil {
		return page.Fleet{}, err
	}
	h, err := p.s.historyOf(ctx, d)
	if err != nil {
		return page.Fleet{}, err
	}
	to := p.s.cfg.Now()
	out := page.Fleet{Span: span, Spans: pageSpans(), Facts: fleetFacts(now), Charts: queueCharts(h, to.Add(-d), to)}
	if now.SeenAt != nil || len(h.Fleet) > 0 {
		out.Charts = append(out.Charts, fleetChart(h, to.Add(-d), to))
	}

	return out, nil
}

func fleetFacts(v fleetView) []page.Fact {
	n := func(i int64) string { return strconv.FormatInt(i, 10) }
	facts := []page.Fact{
		{Name: "Uploading", Value: n(v.Open[store.StatusUploading])},
		{Name: "Queued", Value: n(v.Open[store.StatusQueued])},
		{Name: "Processing", Value: n(v.Open[store.StatusProcessing])},
	}
	if q := v.Queue; q == nil {
		facts = append(facts, page.Fact{Name: "Queue", Value: "not in reach"})
	} else {
		facts = append(facts, page.Fact{Name: "Jobs waiting", Value: n(q.Waiting)}, page.Fact{Name: "Jobs active", Value: n(q.Active)},
			page.Fact{Name: "Oldest waits", Value: (time.Duration(q.OldestSeconds) * time.Second).String()})
		if q.Workers != nil {
			facts = append(facts, page.Fact{Name: "Workers connected", Value: n(*q.Workers)})
		}
		if q.Paused {
			facts = append(facts, page.Fact{Name: "Queue", Value: "paused"})
		}
	}
	if v.SeenAt != nil {
		facts = append(facts, page.Fact{Name: "Fleet", Value: strconv.Itoa(v.Running) + " running of " + strconv.Itoa(v.Desired) + " desired"})
	}

	return facts
}

// censusGap is from when on censuses are missing. Points of a long span are further apart.
func censusGap(from, to time.Time) time.Duration {
	return max(3*censusInterval, 3*to.Sub(from)/historyShown)
}

func queueCharts(h historyView, from, to time.Time) []page.Chart {
	gap := censusGap(from, to)
	waiting, active, delayed := page.Series{Name: "waiting", Gap: gap}, page.Series{Name: "active", Gap: gap}, page.Series{Name: "delayed", Gap: gap}
	workers := page.Series{Name: "connected", Gap: gap}
	for _, q := range h.Queue {
		waiting.Points = append(waiting.Points, page.Point{At: q.At, Value: float64(q.Waiting)})
		active.Points = append(active.Points, page.Point{At: q.At, Value: float64(q.Active)})
		delayed.Points = append(delayed.Points, page.Point{At: q.At, Value: float64(q.Delayed)})
		if q.Workers != nil {
			workers.Points = append(workers.Points, page.Point{At: q.At, Value: float64(*q.Workers)})
		}
	}

	return []page.Chart{
		{ID: "depth", Title: "Queue depth", From: from, To: to, Series: []page.Series{waiting, active, delayed}},
		{ID: "workers", Title: "Workers", From: from, To: to, Series: []page.Series{workers}},
	}
}

func fleetChart(h historyView, from, to time.Time) page.Chart {
	desired, running := page.Series{Name: "desired", Steps: true}, page.Series{Name: "running", Steps: true}
	for _, p := range h.Fleet {
		desired.Points = append(desired.Points, page.Point{At: p.At, Value: float64(p.Desired)})
		running.Points = append(running.Points, page.Point{At: p.At, Value: float64(p.Running)})
	}

	return page.Chart{ID: "size", Title: "Fleet size", From: from, To: to, Series: []page.Series{desired, running}}
}

// Fault tells status and sentence of an error of the others.
func (p pageSource) Fault(err error) (int, string) {
	problem := asProblem(err)

	return problem.status, problem.detail
}
