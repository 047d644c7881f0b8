package api

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// place says how far items are from their turn.
func (a *statsAPI) place(ctx context.Context, c *call, req wire.QueuePositions) (any, error) {
	if n := len(req.IDs); n == 0 || n > wire.MaxPlaces {
		return nil, events.Refuse(events.CodeBadRequest, "ids has %d elements: give 1 to %d", n, wire.MaxPlaces)
	}
	ids := make([]events.ID, len(req.IDs))
	for i, text := range req.IDs {
		var err error
		if ids[i], err = parseID(text); err != nil {
			return nil, err
		}
	}
	places, err := a.Core.Places(ctx, ids)
	if err != nil {
		return nil, err
	}
	now := a.Core.Now()
	reply := wire.PlaceReply{Places: make([]wire.QueuePosition, len(places))}
	for i, p := range places {
		reply.Places[i] = placed(p, a.Metrics.figures.MeanRun(p.Type, now))
	}
	return reply, nil
}

// placed returns a place as the reply has it.
func placed(p dispatcher.Place, meanRun time.Duration) wire.QueuePosition {
	out := wire.QueuePosition{ID: p.ID.String()}
	estimate := func(d time.Duration) { out.EstimatedWait = new(events.DurationOf(d.Truncate(time.Millisecond))) }
	switch {
	case p.OnItsWay:
		out.Ahead = new(int)
		estimate(0)
	case p.Counted:
		ahead := p.Ahead.Items
		out.Ahead = &ahead
		if wait, known := estimateWait(ahead, p.InFlight, p.Parallel, likelyRun(p, meanRun)); known {
			estimate(wait)
		}
	case p.Delay > 0:
		estimate(p.Delay) // at least that
	}
	return out
}

// likelyRun returns the likely duration of a run of the items in front of an item: the
// mean of their own estimates, and of meanRun for items without one. 0: not known. With
// nothing known about the others, the item's own estimate stands for them.
func likelyRun(p dispatcher.Place, meanRun time.Duration) time.Duration {
	a := p.Ahead
	switch {
	case meanRun <= 0 && a.Estimated == 0:
		return p.Estimate
	case a.Estimated == 0:
		return meanRun
	case meanRun <= 0: // as if the others were like these
		return a.Work / time.Duration(a.Estimated)
	}
	return (a.Work + time.Duration(a.Items-a.Estimated)*meanRun) / time.Duration(a.Items)
}

// estimateWait returns how long an item waits behind so many others, if each of them
// takes meanRun and so many run at once. Free slots are taken first; then each
// run that ends, one of them every meanRun/parallel, lets one go. It is not
// known without workers, nor, unless there is a free slot, without a mean.
func estimateWait(ahead, inFlight, parallel int, meanRun time.Duration) (time.Duration, bool) {
	if parallel <= 0 {
		return 0, false
	}
	free := max(parallel-inFlight, 0)
	if ahead < free {
		return 0, true
	}
	if meanRun <= 0 {
		return 0, false
	}
	return time.Duration(float64(ahead+1-free) * float64(meanRun) / float64(parallel)), true
}
