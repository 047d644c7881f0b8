package main

import (
	"context"
	"time"
)

// idleLoad has a worker connected, and nothing to do.
type idleLoad struct{}

func (idleLoad) Name() string { return "idle" }

func (idleLoad) Cases(Options) []Case { return []Case{{Label: "Idle"}} }

// Prepare lets an item pass, so that all is connected.
func (idleLoad) Prepare(ctx context.Context, r *Run) error {
	r.Case.Items = 1
	if err := r.work(ctx); err != nil {
		return err
	}
	if err := r.Peer.Submit(ctx, payload(0)); err != nil {
		return err
	}
	return r.drain(ctx)
}

// Measure takes a time in which nothing happens: the CPU is read from outside.
func (idleLoad) Measure(ctx context.Context, r *Run) (Values, error) {
	start := time.Now()
	select {
	case <-time.After(time.Duration(r.Seconds * float64(time.Second))):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return Values{valueSeconds: time.Since(start).Seconds()}, nil
}
