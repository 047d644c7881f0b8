package embedded

import (
	"context"
)

// space is one namespace in this process: its log, and all that works on it.
type space struct {
	*base   // with the namespace's names and folder
	guard   *guard
	ledger  *ledger
	decider *decider
	faces   *faces
}

// newSpace makes a namespace of a base of its own.
func newSpace(b *base, g *guard) *space {
	l := newLedger(b)
	d := &decider{base: b, ledger: l}
	f := &faces{base: b, ledger: l, guard: g, decider: d, sites: &sites{base: b, ledger: l}}
	return &space{base: b, guard: g, ledger: l, decider: d, faces: f}
}

// logParts open the log, and the store that is made of it.
func (s *space) logParts() []part {
	l, d := s.ledger, s.decider
	return []part{
		{"the store", l.openStore, l.closeStore},
		{"the buckets", d.openMirror, func(ctx context.Context) error { return d.mirror.stop(ctx) }},
		{"the lease", l.lease.start, l.lease.stop},
		{"the event log", l.openLog, func(context.Context) error { return l.eventLog.Close() }},
	}
}

// workParts work on the log. Behind them the namespace is owned, or followed, and is not
// answered for yet.
func (s *space) workParts() []part {
	l, d, f := s.ledger, s.decider, s.faces
	return []part{
		{"the match of store and log", l.matchStore, nil},
		{"the quotas", just(f.openQuotas), nil},
		{"the dispatcher", func(context.Context) error { return d.newDispatcher(f.hooks()) }, d.stopDispatcher},
		{"the heed of room", just(d.heedRoom), just(func() { d.unheed() })},
		{"the bound of the log", d.heedBound, just(d.bound.stop)},
		{"the large documents", d.startBlobs, just(func() { d.janitor.Stop() })},
		{"the API", f.openAPI, f.closeAPI},
		{"the ownership", d.takeOver, nil},
	}
}

// owner returns the node that owns the log, as this one knows; empty: none that it knows.
func (s *space) owner() string {
	if by, standsBy := s.decider.dispatcher.StandsBy(); standsBy {
		return by.Owner
	}
	return s.nodeName()
}
