// Package ecs sets the desired count of a service of Amazon ECS, whose tasks are workers.
//
// What the API says may be seconds old, so that counts are asked for again when they do not show; a count is absolute, so that a request
// that is repeated, or whose answer is lost, does no harm (UpdateService takes no client token and needs none). ECS ends tasks of its own
// choice, but none that is protected: workers protect themselves while they are busy, and before fewer tasks are asked for, it is checked
// here that they have.
package ecs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/posefleet/posefleet/control/fleet"
)

const (
	// pace is how often starting tasks are asked for; they take half a minute.
	pace = 5 * time.Second
	// callTries is how often the SDK tries a throttled call before the pass is given up and comes again, later.
	callTries = 2
	// perCall is how many tasks one call describes.
	perCall = 100
	// unchecked is how long a task may run without a health check's verdict before it counts as ready all the same.
	unchecked = time.Minute
	// started names the launch status of a running task.
	started = "RUNNING"
)

// ErrNoService says that the service is not there, or not active.
var ErrNoService = errors.New("no such active ECS service")

// Config names the service. Region and credentials are found as the SDK finds them.
type Config struct {
	Cluster, Service string
	// Options change the client, for tests.
	Options func(*ecs.Options)
}

// Fleet is a fleet.Driver.
type Fleet struct {
	client           *ecs.Client
	cluster, service string
}

var _ fleet.Driver = (*Fleet)(nil)

// New makes a client. It does not ask for the service yet: a control plane starts without the API too.
func New(ctx context.Context, c Config) (*Fleet, error) {
	loaded, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("ecs fleet: %w", err)
	}
	client := ecs.NewFromConfig(loaded, func(o *ecs.Options) {
		// The pass comes again by itself, with pauses that grow; long tries here would keep it from reading the demand meanwhile.
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts, r.MaxBackoff = callTries, time.Second })
		if c.Options != nil {
			c.Options(o)
		}
	})
	if client.Options().Region == "" {
		return nil, errors.New("ecs fleet: no region (set AWS_REGION)")
	}

	return &Fleet{client: client, cluster: c.Cluster, service: c.Service}, nil
}

// Name is "ecs".
func (f *Fleet) Name() string { return string(fleet.ECS) }

// Pace fits the start of a task.
func (f *Fleet) Pace() time.Duration { return pace }

// StandDown does nothing: the service is there for whoever decides.
func (f *Fleet) StandDown() {}

// Run waits: ECS itself keeps the tasks going.
func (f *Fleet) Run(ctx context.Context) { <-ctx.Done() }

// Look reads the service's counts, and which tasks are healthy while there are any.
func (f *Fleet) Look(ctx context.Context) (fleet.Seen, error) {
	out, err := f.client.DescribeServices(ctx, &ecs.DescribeServicesInput{Cluster: &f.cluster, Services: []string{f.service}})
	if err != nil {
		return fleet.Seen{}, fmt.Errorf("describe service: %w", err)
	}
	if len(out.Services) != 1 || aws.ToString(out.Services[0].Status) != "ACTIVE" {
		return fleet.Seen{}, fmt.Errorf("%w: %s/%s", ErrNoService, f.cluster, f.service)
	}
	s := out.Services[0]
	seen := fleet.Seen{Desired: int(s.DesiredCount), Running: int(s.RunningCount)}
	if seen.Running == 0 {
		return seen, nil
	}
	tasks, err := f.tasks(ctx)
	if err != nil {
		return fleet.Seen{}, err
	}
	seen.Ready, err = f.ready(ctx, tasks)

	return seen, err
}

// Spare keeps the protected tasks. As long as a busy one is not protected, ECS might end it, and nothing may be ended.
func (f *Fleet) Spare(ctx context.Context, n int, busy []string) (int, error) {
	tasks, err := f.tasks(ctx)
	if err != nil || len(tasks) == 0 {
		return n, err
	}
	protected := map[string]bool{}
	for some := range slices.Chunk(tasks, perCall) {
		out, err := f.client.GetTaskProtection(ctx, &ecs.GetTaskProtectionInput{Cluster: &f.cluster, Tasks: some})
		if err != nil {
			return n, fmt.Errorf("task protection: %w", err)
		}
		for _, p := range out.ProtectedTasks {
			if p.ProtectionEnabled {
				protected[taskID(aws.ToString(p.TaskArn))] = true
			}
		}
	}
	for _, arn := range tasks {
		if id := taskID(arn); slices.Contains(busy, id) && !protected[id] {
			return max(n, len(tasks)), nil
		}
	}

	return max(n, len(protected)), nil
}

// Set asks for n tasks.
func (f *Fleet) Set(ctx context.Context, n int, _ []string) error {
	count := int32(min(n, fleet.MaxWorkers)) //nolint:gosec // bounded
	_, err := f.client.UpdateService(ctx, &ecs.UpdateServiceInput{Cluster: &f.cluster, Service: &f.service, DesiredCount: &count})
	if err != nil {
		return fmt.Errorf("update service: %w", err)
	}

	return nil
}

// tasks lists the tasks of the service that are to run.
func (f *Fleet) tasks(ctx context.Context) ([]string, error) {
	var all []string
	pages := ecs.NewListTasksPaginator(f.client, &ecs.ListTasksInput{
		Cluster: &f.cluster, ServiceName: &f.service, DesiredStatus: types.DesiredStatusRunning,
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list tasks: %w", err)
		}
		all = append(all, page.TaskArns...)
	}

	return all, nil
}

// ready counts tasks whose health check says so, and those that have run for a while without one.
func (f *Fleet) ready(ctx context.Context, tasks []string) (int, error) {
	n := 0
	for some := range slices.Chunk(tasks, perCall) {
		out, err := f.client.DescribeTasks(ctx, &ecs.DescribeTasksInput{Cluster: &f.cluster, Tasks: some})
		if err != nil {
			return 0, fmt.Errorf("describe tasks: %w", err)
		}
		for _, t := range out.Tasks {
			old := t.StartedAt != nil && time.Since(*t.StartedAt) > unchecked
			if aws.ToString(t.LastStatus) == started && (t.HealthStatus == types.HealthStatusHealthy || (t.HealthStatus != types.HealthStatusUnhealthy && old)) {
				n++
			}
		}
	}

	return n, nil
}

// taskID is the last part of a task's ARN, which is what its worker calls itself.
func taskID(arn string) string { return arn[strings.LastIndexByte(arn, '/')+1:] }
