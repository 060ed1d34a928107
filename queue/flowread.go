package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"
)

// FlowQuery names a job whose tree is read.
type FlowQuery struct {
	Queue, Prefix string // Prefix: default that of the Flows
	ID            string
	// Depth is how many levels are read, the job's own included; 0: 10.
	Depth int
	// MaxChildren is how many children of each kind – pending, completed, failed, ignored – are read of each job; 0: 20.
	MaxChildren int
}

// FlowTree is a job with its children as they are now. Children that have been removed are left out.
type FlowTree struct {
	Job      *Job
	Queue    string
	Children []*FlowTree
}

const (
	defaultFlowDepth    = 10
	defaultFlowChildren = 20
)

// Get reads the tree below a job, one round trip a level. ErrJobNotFound if the job does not exist.
func (f *Flows) Get(ctx context.Context, query FlowQuery) (*FlowTree, error) {
	k, err := newKeys(cmp.Or(query.Prefix, f.prefix), query.Queue)
	if err != nil {
		return nil, fmt.Errorf("read flow: %w", err)
	}

	most := cmp.Or(query.MaxChildren, defaultFlowChildren)
	top := &FlowTree{}
	level := []branch{{key: k.job(query.ID), keys: k, id: query.ID, up: top}}

	for depth := cmp.Or(query.Depth, defaultFlowDepth); depth > 0 && len(level) > 0; depth-- {
		if level, err = f.readLevel(ctx, level, depth > 1, most); err != nil {
			return nil, fmt.Errorf("read flow of job %s: %w", query.ID, err)
		}
	}

	if len(top.Children) == 0 {
		return nil, fmt.Errorf("read flow of job %s: %w", query.ID, ErrJobNotFound)
	}

	return top.Children[0], nil
}

// branch is a job that is still to be read into the tree above it.
type branch struct {
	key  string
	keys keys
	id   string
	up   *FlowTree
}

// readLevel reads the jobs of one level and answers those of the next one, if that is wanted.
func (f *Flows) readLevel(ctx context.Context, level []branch, below bool, most int) ([]branch, error) {
	pipe := f.client.get().Pipeline()
	hashes := make([]*redis.MapStringStringCmd, len(level))
	families := make([]func() Family, len(level))

	for i, b := range level {
		hashes[i] = pipe.HGetAll(ctx, b.key)

		if below {
			families[i] = readFamily(ctx, pipe, b.key)
		}
	}

	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}

	var (
		next []branch
		errs []error
	)

	for i, b := range level {
		fields := hashes[i].Val()
		if len(fields) == 0 {
			continue
		}

		job, err := decodeJob(b.id, fields)
		errs = append(errs, err)
		job.desk = &desk{line: f.client, scripts: f.scripts, keys: b.keys}
		tree := &FlowTree{Job: job, Queue: b.keys.name}
		b.up.Children = append(b.up.Children, tree)

		if below {
			next = append(next, branches(families[i](), tree, most)...)
		}
	}

	return next, errors.Join(errs...)
}

// branches are a parent's children, at most so many of each kind.
func branches(f Family, up *FlowTree, most int) []branch {
	var next []branch

	for _, group := range [][]string{slices.Sorted(maps.Keys(f.Processed)), f.Pending, f.Failed, slices.Sorted(maps.Keys(f.Ignored))} {
		for _, key := range group[:min(len(group), most)] {
			if k, id, ok := splitKey(key); ok {
				next = append(next, branch{key: key, keys: k, id: id, up: up})
			}
		}
	}

	return next
}
