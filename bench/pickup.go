package main

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// pickupLoad submits items at a fixed rate, whatever comes back (an open loop), and
// measures the time from when an item was to be submitted to the first line of its
// handler. So a system that falls behind shows its whole queue: nothing is left out
// because the submitter had to wait (no coordinated omission).
type pickupLoad struct{}

// maxInFlight bounds the submits that await their acknowledgement, as any client does:
// with thousands, some clients give up waiting for a connection. Beyond it submits are
// late, and their latency counts that.
const maxInFlight = 256

func (pickupLoad) Name() string { return "pickup" }

func (pickupLoad) Cases(o Options) (cases []Case) {
	for _, rate := range o.Rates {
		cases = append(cases, Case{Label: figure(float64(rate)) + "/s", N: rate, Items: max(1, int(float64(rate)*o.Seconds))})
	}
	return cases
}

// Prepare lets a few items pass first, so that connections, plans and caches are there.
func (pickupLoad) Prepare(ctx context.Context, r *Run) error {
	const warm = 200
	r.items = payloads(0, r.Case.Items)
	p := &pickup{started: make([]time.Duration, r.Case.Items), tally: newTally(r.Case.Items), warm: newTally(warm)}
	if err := r.workWith(ctx, p.handle); err != nil {
		return err
	}
	r.tally, r.pickup = p.tally, p
	if err := r.single(ctx, payloads(r.Case.Items, warm), 1); err != nil {
		return err
	}
	return p.warm.wait(ctx)
}

// pickup notes when handlers start. Payloads beyond those of the case are warm-up.
type pickup struct {
	base    atomic.Pointer[time.Time]
	started []time.Duration // since base; each is written once, before tally knows it
	tally   *tally
	warm    *tally
}

func (p *pickup) handle(v Payload) {
	if v.Seq >= len(p.started) {
		p.warm.saw(v.Seq - len(p.started))
		return
	}
	if !p.tally.seen[v.Seq].Load() { // not a repeat, which would be far later
		p.started[v.Seq] = time.Since(*p.base.Load())
	}
	p.tally.saw(v.Seq)
}

func (pickupLoad) Measure(ctx context.Context, r *Run) (Values, error) {
	base := time.Now()
	r.pickup.base.Store(&base)
	due := func(i int) time.Duration { return time.Duration(float64(i) / float64(r.Case.N) * float64(time.Second)) }
	g, submitting := errgroup.WithContext(ctx)
	g.SetLimit(maxInFlight)
	for i, v := range r.items {
		if wait := due(i) - time.Since(base); wait > 0 {
			select {
			case <-time.After(wait):
			case <-submitting.Done():
				return nil, g.Wait()
			}
		}
		g.Go(func() error { return r.Peer.Submit(submitting, v) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err := r.tally.wait(ctx); err != nil {
		return nil, err
	}
	late := make([]time.Duration, len(r.items))
	for i := range late {
		late[i] = r.pickup.started[i] - due(i)
	}
	slices.Sort(late)
	return Values{
		valueP50: millis(quantile(late, 0.50)), valueP99: millis(quantile(late, 0.99)), valueMax: millis(late[len(late)-1]),
		valueMore: float64(r.tally.more.Load()),
	}, nil
}

// quantile returns the q-quantile of sorted, by the nearest rank.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
