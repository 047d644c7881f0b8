package bridge

import (
	"slices"
	"time"

	"github.com/streamwright/streamwright/internal/pull"
	"github.com/streamwright/streamwright/wire"
)

const (
	// DefaultMaxHeldBytes bounds the batches that are held for a repeat of their
	// polls, over all workers.
	DefaultMaxHeldBytes = 64 << 20
	// MaxPollID bounds the name that a client gives to a poll, in bytes.
	MaxPollID = 64

	itemOverhead = 512 // about what an item has in memory beside its documents
)

// batch is the reply to a named poll, kept until the worker shows that it has
// it: by another poll, or by a report or a heartbeat that names one of the runs.
// Until then the poll may be repeated. Guarded by Bridge.mu.
type batch struct {
	poll  string
	claim bool
	runs  []*run
	items []wire.PolledItem // of the runs; nil once the bound was reached
	bytes int
}

// batches holds the batches of all workers, oldest first. Guarded by Bridge.mu.
type batches struct {
	list  []*batch
	bytes int
}

// add keeps a batch. While there are more than so many bytes the oldest are given
// up.
func (bs *batches) add(h *batch, most int) {
	bs.list, bs.bytes = append(bs.list, h), bs.bytes+h.bytes
	for bs.bytes > most {
		oldest := bs.list[0]
		bs.remove(oldest)
		oldest.items = nil
	}
}

// remove frees what a batch holds, unless it was given up.
func (bs *batches) remove(h *batch) {
	if i := slices.Index(bs.list, h); i >= 0 {
		bs.list = slices.Delete(bs.list, i, i+1)
		bs.bytes -= h.bytes
	}
}

// hold keeps what a named poll returns. REQUIRES: mu.
func (p *poll) hold(runs []*run, items []wire.PolledItem) {
	s := p.s
	if p.id == "" || len(items) == 0 || s.closed {
		return
	}
	s.acknowledge()
	h := &batch{poll: p.id, claim: p.claim, runs: runs, items: items}
	for i := range items {
		it := &items[i]
		h.bytes += itemOverhead + len(it.Params) + len(it.Checkpoint)
		if it.Continuation != nil {
			h.bytes += len(it.Continuation.Children)
		}
		runs[i].batch = h
	}
	s.batch = h
	s.b.held.add(h, s.b.cfg.MaxHeldBytes)
	s.polling.poke() // a repeat may be waiting already
}

// acknowledge forgets the worker's batch: the worker has it. REQUIRES: mu.
func (s *session) acknowledge() {
	if s.batch == nil {
		return
	}
	s.b.held.remove(s.batch)
	for _, r := range s.batch.runs {
		r.batch = nil
	}
	s.batch = nil
}

// named notes that the worker has named a run, so that it has the batch.
// REQUIRES: mu.
func (s *session) named(r *run) {
	if r != nil && r.batch != nil && r.batch == s.batch {
		s.acknowledge()
	}
}

// repeats reports whether the worker's batch was returned to this poll before.
// REQUIRES: mu.
func (p *poll) repeats() bool {
	h := p.s.batch
	return h != nil && p.id == h.poll && p.claim == h.claim
}

// again returns to a repeated poll the items that were returned before and are still
// the worker's. It renews the leases, as a heartbeat does. A batch that was given up
// is handed back instead: its worker has shown that it does not have it. Nil: the
// poll continues. REQUIRES: mu.
func (p *poll) again(now time.Time) *wire.Polled {
	if !p.repeats() {
		return nil
	}
	s, h := p.s, p.s.batch
	items := make([]wire.PolledItem, 0, len(h.items))
	for i, r := range h.runs {
		switch {
		case s.runs[r.token] != r || r.cancelled:
		case h.items == nil:
			s.release(r, "reply_lost")
		default:
			s.b.renewLease(r, now)
			items = append(items, h.items[i])
		}
	}
	if len(items) == 0 {
		s.acknowledge()
		return nil
	}
	return &wire.Polled{Items: items, ShouldDrain: s.Draining}
}

// renewLease begins a run's lease anew. REQUIRES: mu.
func (b *Bridge) renewLease(r *run, now time.Time) {
	r.renewed = now
	if r.reply != "" {
		b.outbox.Add(r.reply, "", pull.Renew)
	}
}
