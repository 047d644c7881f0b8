package main

import (
	"context"
	"time"
)

// bulkLoad submits many items at once; nobody works.
type bulkLoad struct{}

func (bulkLoad) Name() string { return "bulk" }

func (bulkLoad) Cases(o Options) []Case { return []Case{{Label: "Bulk submit", Items: 2 * o.Items}} }

func (bulkLoad) Prepare(_ context.Context, r *Run) error {
	r.items = payloads(0, r.Case.Items)
	return nil
}

func (bulkLoad) Measure(ctx context.Context, r *Run) (Values, error) {
	start := time.Now()
	err := r.bulk(ctx, r.items)
	return Values{valueRate: perSecond(r.Case.Items, start)}, err
}
