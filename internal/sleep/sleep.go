// Package sleep waits for a time, or until a context ends.
package sleep

import (
	"context"
	"time"
)

// For returns nil after d, or ctx's error once that has ended.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Longer waits as For does, and doubles the time, up to most, for the next wait.
func Longer(ctx context.Context, d *time.Duration, most time.Duration) error {
	select {
	case <-After(d, most):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// After is time.After, and doubles the time, up to most, for the next wait.
func After(d *time.Duration, most time.Duration) <-chan time.Time {
	c := time.After(*d)
	*d = min(2**d, most)
	return c
}
