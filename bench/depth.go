package main

import (
	"context"
	"sync/atomic"
	"time"
)

// depthLoad fills a queue to its depth, and then works on it: how fast it was filled,
// how fast the first items come out of it, and the memory that it takes.
type depthLoad struct{}

func (depthLoad) Name() string { return "depth" }

func (depthLoad) Cases(o Options) []Case {
	return []Case{{Label: "Depth", Items: min(o.Items, o.Depth)}}
}

func (depthLoad) Prepare(ctx context.Context, r *Run) error {
	start := time.Now()
	for from := 0; from < r.Depth; from += depthStep {
		if err := r.bulk(ctx, payloads(from, min(depthStep, r.Depth-from))); err != nil {
			return err
		}
	}
	r.filled = perSecond(r.Depth, start)
	return nil
}

// depthStep bounds the payloads that the client holds.
const depthStep = 100_000

func (depthLoad) Measure(ctx context.Context, r *Run) (Values, error) {
	start := time.Now()
	// Order differs between systems: any items will do.
	var n atomic.Int64
	r.tally = newTally(r.Case.Items)
	if err := r.workWith(ctx, func(Payload) { r.tally.saw(min(int(n.Add(1)), r.Case.Items) - 1) }); err != nil {
		return nil, err
	}
	err := r.tally.wait(ctx)
	return Values{valueRate: perSecond(r.Case.Items, start), valueFill: r.filled}, err
}
