package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// promEscape is how Prometheus' text format writes a label's value.
var promEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// PrometheusText is what BullMQ's exportPrometheusMetrics gives, in Prometheus' text format, for whoever answers scrapes: how many jobs
// are in each state, and how many have ended since workers with MetricsPoints count them. The labels stand on every line, in the order of
// their names; names are taken as they are, values are escaped.
func (q *Queue) PrometheusText(ctx context.Context, labels map[string]string) (string, error) {
	counts, err := q.Counts(ctx)
	if err != nil {
		return "", err
	}

	done, err := q.Metrics(ctx, StateCompleted, 0, 1)
	if err != nil {
		return "", err
	}

	failed, err := q.Metrics(ctx, StateFailed, 0, 1)
	if err != nil {
		return "", err
	}

	var rest strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		rest.WriteString(", " + promLabel(name, labels[name]))
	}

	own := promLabel("queue", q.keys.name)

	var text strings.Builder

	text.WriteString("# HELP bullmq_job_count Number of jobs in the queue by state\n# TYPE bullmq_job_count gauge\n")

	for _, s := range counts.byState() {
		fmt.Fprintf(&text, "bullmq_job_count{%s, %s%s} %d\n", own, promLabel("state", string(s.state)), &rest, s.n)
	}

	fmt.Fprintf(&text, "# HELP bullmq_job_completed_total Total number of completed jobs\n# TYPE bullmq_job_completed_total counter\n"+
		"bullmq_job_completed_total{%s%s} %d\n", own, &rest, done.Count)
	fmt.Fprintf(&text, "# HELP bullmq_job_failed_total Total number of failed jobs\n# TYPE bullmq_job_failed_total counter\n"+
		"bullmq_job_failed_total{%s%s} %d\n", own, &rest, failed.Count)

	return text.String(), nil
}

func promLabel(name, value string) string { return name + `="` + promEscape.Replace(value) + `"` }

// stateCount is how many jobs are in a state.
type stateCount struct {
	state State
	n     int64
}

// byState lists the counts in the order of the states' names.
func (c *Counts) byState() []stateCount {
	return []stateCount{
		{StateActive, c.Active},
		{StateCompleted, c.Completed},
		{StateDelayed, c.Delayed},
		{StateFailed, c.Failed},
		{StatePrioritized, c.Prioritized},
		{StateWaiting, c.Waiting},
		{StateWaitingChildren, c.WaitingChildren},
	}
}
