package main

import (
	"context"
	"time"
)

// burnDownLoad works off a backlog: from the start of the worker until the last item is
// recorded as done.
type burnDownLoad struct{}

func (burnDownLoad) Name() string { return "burndown" }

func (burnDownLoad) Cases(o Options) []Case {
	return []Case{{Label: "Burn-down of a backlog", Items: 2 * o.Items}}
}

func (burnDownLoad) Prepare(ctx context.Context, r *Run) error {
	return r.bulk(ctx, payloads(0, r.Case.Items))
}

func (burnDownLoad) Measure(ctx context.Context, r *Run) (Values, error) {
	start := time.Now()
	if err := r.work(ctx); err != nil {
		return nil, err
	}
	err := r.drain(ctx)
	return Values{valueRate: perSecond(r.Case.Items, start), valueMore: float64(r.tally.more.Load())}, err
}
