package bridge

import (
	"time"

	"github.com/streamwright/streamwright/events"
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

func checkPollID(id string) error {
	if len(id) > MaxPollID {
		return events.Refuse(events.CodeBadRequest, "poll_id has %d bytes: at most %d; a count will do", len(id), MaxPollID)
	}
	return nil
}

// hold keeps what a named poll returns. At the bound the oldest batches are
// given up. REQUIRES: mu.
func (b *Bridge) hold(s *session, p *poll, runs []*run, items []wire.PolledItem) {
	if p.id == "" || len(items) == 0 || s.closed {
		return
	}
	b.acknowledge(s)
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
	b.held, b.heldBytes = append(b.held, h), b.heldBytes+h.bytes
	for b.heldBytes > b.cfg.MaxHeldBytes {
		oldest := b.held[0]
		b.letGo(oldest)
		oldest.items = nil
	}
	s.poke() // a repeat may be waiting already
}

// letGo frees what a batch holds. REQUIRES: mu.
func (b *Bridge) letGo(h *batch) {
	for i := range b.held {
		if b.held[i] == h {
			copy(b.held[i:], b.held[i+1:])
			b.held[len(b.held)-1] = nil
			b.held = b.held[:len(b.held)-1]
			b.heldBytes -= h.bytes
			return
		}
	}
}

// acknowledge forgets the worker's batch: the worker has it. REQUIRES: mu.
func (b *Bridge) acknowledge(s *session) {
	if s.batch == nil {
		return
	}
	b.letGo(s.batch)
	for _, r := range s.batch.runs {
		r.batch = nil
	}
	s.batch = nil
}

// named notes that a worker has named a run, so that it has the batch.
// REQUIRES: mu.
func (b *Bridge) named(s *session, r *run) {
	if r != nil && r.batch != nil && r.batch == s.batch {
		b.acknowledge(s)
	}
}

// repeats reports whether a poll is that which the worker's batch was returned
// to. REQUIRES: mu.
func (p *poll) repeats(s *session) bool {
	return s.batch != nil && p.id == s.batch.poll && p.claim == s.batch.claim
}

// again returns a repeated poll what it has returned before, as far as that is
// still the worker's, with the leases begun anew: it is a sign of life as a
// heartbeat is. A batch that was given up goes back instead: its worker has shown
// that it does not have it. Nil: the poll is to go on. REQUIRES: mu.
func (b *Bridge) again(s *session, p *poll, now time.Time) *wire.Polled {
	if !p.repeats(s) {
		return nil
	}
	h := s.batch
	items := make([]wire.PolledItem, 0, len(h.items))
	for i, r := range h.runs {
		switch {
		case s.runs[r.token] != r || r.cancelled:
		case h.items == nil:
			b.release(s, r, "reply_lost")
		default:
			r.renewed = now
			if r.reply != "" {
				b.publish(r.reply, "", pull.Renew)
			}
			items = append(items, h.items[i])
		}
	}
	if len(items) == 0 {
		b.acknowledge(s)
		return nil
	}
	return &wire.Polled{Items: items, ShouldDrain: s.draining}
}
