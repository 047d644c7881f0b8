package main

import (
	"context"
	"time"
)

// endToEndLoad submits items one by one, by many clients, while the worker works: from
// the first submit until the last item is recorded as done. Its costs are those of the
// whole life of an item.
type endToEndLoad struct{}

func (endToEndLoad) Name() string { return "endtoend" }

func (endToEndLoad) Cases(o Options) []Case {
	return []Case{{Label: "End to end", N: submitters, Items: o.Items}}
}

func (endToEndLoad) Prepare(ctx context.Context, r *Run) error {
	r.items = payloads(0, r.Case.Items)
	return r.work(ctx)
}

func (endToEndLoad) Measure(ctx context.Context, r *Run) (Values, error) {
	start := time.Now()
	if err := r.single(ctx, r.items, r.Case.N); err != nil {
		return nil, err
	}
	err := r.drain(ctx)
	return Values{valueRate: perSecond(r.Case.Items, start), valueMore: float64(r.tally.more.Load())}, err
}
