package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

// A node that is cut off from the others, or has just come back, may lack what they have
// accepted. What it has it answers, but what it lacks may be elsewhere: it must not say of
// that that there is none.

// stale says why this node may lack what was durable when it was asked; nil: it has all.
// It waits for freshWithin at most until the projection shows that.
func (e *engine) stale(ctx context.Context) error {
	st := e.standsBy()
	switch {
	case st == nil && e.Reached == nil:
		return nil
	case st == nil:
		return e.Reached(ctx)
	case st.cutOff != nil:
		return st.cutOff
	}
	ctx, cancel := context.WithTimeout(ctx, freshWithin)
	defer cancel()
	end, err := e.Core.End(ctx)
	if err != nil {
		return fmt.Errorf("the leader of the log does not answer: %w", err)
	}
	if end > e.Queries.Applied() && e.Core.Await(ctx, end) != nil {
		return fmt.Errorf("it is %s behind the log", events.Count(int64(e.lag()), "event"))
	}
	return nil
}

// absent returns the answer to a question about what is not there: refusal, or that nobody can
// tell here.
func (e *engine) absent(ctx context.Context, refusal error) error {
	if err := wire.StaleError(refusal.Error(), e.lacking(ctx)); err != nil {
		return err
	}
	return refusal
}

// sure returns the answer of a query that has found nothing: it asks once more if there is more
// to see by now.
func (s *Service) sure(ctx context.Context, c *call, refusal error, again func(context.Context, *call) (any, error)) (any, error) {
	if e, _ := wire.EndpointOf(c.endpoint); !e.ReadOnly {
		return nil, refusal
	}
	seen := s.Queries.Applied()
	if err := s.absent(ctx, refusal); err != refusal || s.Queries.Applied() == seen {
		return nil, err
	}
	return again(ctx, c)
}

// listed marks a page of a list if it may lack items.
func (e *engine) listed(ctx context.Context, page wire.Listed, err error) (wire.Listed, error) {
	if err != nil {
		return page, err
	}
	if page.Items == nil {
		page.Items = []wire.Item{}
	}
	page.Stale = e.lacking(ctx)
	return page, nil
}

// lacking says why a list may lack something, as wire.Listed does; empty: it has all.
func (e *engine) lacking(ctx context.Context) string {
	why := e.stale(ctx)
	if why == nil {
		return ""
	}
	return fmt.Sprintf("as of position %s: this node may lack what others have accepted (%v)", wire.PositionOf(e.Queries.Applied()), why)
}

// reachedEvery is the time between two looks at whether an owner reaches most of the servers.
const reachedEvery = 2 * time.Second

// reach says since when this process has not reached most of the servers.
type reach struct {
	mu    sync.Mutex // guards what follows
	since time.Time  // zero: it reaches them
	why   error
}

// seen notes what a look has found.
func (r *reach) seen(err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why = err; err == nil {
		r.since = time.Time{}
	} else if r.since.IsZero() {
		r.since = now
	}
}

// lost returns why most of the servers have not been reached for cutOffAfter, which no choice
// of a leader takes; nil: they are, or were until just now.
func (r *reach) lost(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() || now.Sub(r.since) < cutOffAfter {
		return nil
	}
	return r.why
}

// watchReach looks at whether most of the servers are reached, until the service stops.
func (s *Service) watchReach() {
	for {
		ctx, cancel := context.WithTimeout(s.ctx, readyTimeout)
		err := s.Reached(ctx)
		cancel()
		if s.ctx.Err() != nil {
			return
		}
		s.reach.seen(err, time.Now())
		if sleep.For(s.ctx, reachedEvery) != nil {
			return
		}
	}
}
