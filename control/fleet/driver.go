package fleet

import (
	"context"
	"time"
)

// Seen is what the platform says of the fleet. It may be late.
type Seen struct {
	// Desired is how many workers the platform aims at, Running how many there are, Ready how many of them can take work.
	Desired, Running, Ready int
}

// Driver is a platform that runs workers. Its methods are called by one goroutine, Run by another.
type Driver interface {
	// Name says which one it is, for people.
	Name() string
	// Look reads what there is.
	Look(ctx context.Context) (Seen, error)
	// Spare tells how few workers there may be, at least n, if the busy ones have to stay. An error is no permission.
	Spare(ctx context.Context, n int, busy []string) (int, error)
	// Set asks for n workers, and ends idle ones before those that are named as busy. The same again changes nothing.
	Set(ctx context.Context, n int, busy []string) error
	// StandDown ends what only this process can end: another one decides from now on.
	StandDown()
	// Pace is after how long a look may show something new while workers start.
	Pace() time.Duration
	// Run does what goes on between the calls, until ctx ends; then it ends what this process runs.
	Run(ctx context.Context)
}

// fixed is a fleet that somebody else looks after.
type fixed struct{}

// Name is "none".
func (fixed) Name() string { return "none" }

// Look sees nothing.
func (fixed) Look(context.Context) (Seen, error) { return Seen{}, nil }

// Spare leaves everything as it is.
func (fixed) Spare(_ context.Context, n int, _ []string) (int, error) { return n, nil }

// Set does nothing.
func (fixed) Set(context.Context, int, []string) error { return nil }

// StandDown does nothing.
func (fixed) StandDown() {}

// Pace does not matter.
func (fixed) Pace() time.Duration { return time.Second }

// Run waits.
func (fixed) Run(ctx context.Context) { <-ctx.Done() }
