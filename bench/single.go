package main

import (
	"context"
	"time"
)

// singleLoad submits items one by one; nobody works.
type singleLoad struct{}

func (singleLoad) Name() string { return "single" }

func (singleLoad) Cases(o Options) []Case {
	return []Case{
		{Label: "Single submits, 1 client", N: 1, Items: max(1, o.Items/10)},
		{Label: "Single submits, 32 clients", N: 32, Items: o.Items},
	}
}

func (singleLoad) Prepare(_ context.Context, r *Run) error {
	r.items = payloads(0, r.Case.Items)
	return nil
}

func (singleLoad) Measure(ctx context.Context, r *Run) (Values, error) {
	start := time.Now()
	err := r.single(ctx, r.items, r.Case.N)
	return Values{valueRate: perSecond(r.Case.Items, start)}, err
}
