package bridge

import (
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/wire"
)

// run is one run of one item, from its arrival until its end is answered.
type run struct {
	// Immutable.
	id    string
	token string
	lease time.Duration // as announced

	// Guarded by Bridge.mu.
	item      *wire.PolledItem // until it is handed out
	renewed   time.Time        // arrival, or the last renewal
	started   bool             // the engine knows that it has started
	cancelled bool             // the worker is to stop it
	loaded    int              // bytes of it that count
	batch     *batch           // that it was returned in, as long as that may be asked for again
}

// readRun makes the run of an item.
func readRun(a *wire.Assigned, now time.Time) *run {
	params := a.Params
	if len(params) == 0 {
		params = json.RawMessage("null")
	}
	return &run{id: a.ID, token: a.Token, renewed: now, lease: a.Lease.Duration, item: &wire.PolledItem{
		ID: a.ID, Type: a.Type, Token: a.Token, Attempt: a.Attempt, Lease: a.Lease, Timeout: a.Timeout,
		Params: params, Labels: a.Labels, Trace: a.Trace, Left: a.Left,
	}}
}

// over returns the time at which the lease ends if it is not renewed.
func (r *run) over() time.Time { return r.renewed.Add(r.lease) }

// unload forgets a run's item, which is handed out or goes back. REQUIRES: mu.
func (b *Bridge) unload(r *run) {
	b.loaded -= r.loaded
	r.item, r.loaded = nil, 0
}

// adopt takes a run for the worker's that another bridge has handed out, or this one before
// it was restarted. REQUIRES: mu.
func (s *session) adopt(id, token string, now time.Time) {
	s.runs[token] = &run{id: id, token: token, lease: s.longest, renewed: now, started: true}
}

// finish ends a run whose end the engine has answered. REQUIRES: mu.
func (s *session) finish(r *run) {
	s.b.unload(r)
	if s.runs[r.token] != r {
		return
	}
	delete(s.runs, r.token)
	s.polling.poke() // a slot is free
}

// lapse forgets the runs whose lease is over, unless the worker names them at another
// engine: this one asks the owner of the log if it is to know. It returns when the next one
// will be. REQUIRES: mu.
func (s *session) lapse(now time.Time) (next time.Time) {
	for token, r := range s.runs {
		if end := r.over(); end.After(now) {
			next = sooner(next, end)
			continue
		}
		delete(s.runs, token)
	}
	return next
}

// free returns how many more items the worker may be given. REQUIRES: mu.
func (s *session) free() int { return s.reg.Slots - len(s.runs) }

// giveBack releases the first of what has arrived and was not handed out. REQUIRES: mu.
func (s *session) giveBack(some []*run, reason string) {
	for _, r := range some {
		s.release(r, reason)
	}
	if s.inbox = s.inbox[len(some):]; len(s.inbox) == 0 {
		s.inbox = nil
	}
}
