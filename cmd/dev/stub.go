package main
import "context"
func (t *tool) test(ctx context.Context, _ []string) error { return nil }
func (t *tool) lint(ctx context.Context, _ []string) error { return nil }
func (t *tool) race(ctx context.Context, _ []string) error { return nil }
func (t *tool) bench(ctx context.Context, _ []string) error { return nil }
func (t *tool) image(ctx context.Context, _ []string) error { return nil }
func (t *tool) imageCheck(ctx context.Context, _ []string) error { return nil }
