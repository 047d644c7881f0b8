package bridge

import (
	"slices"

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
func (p *poll) hold(taken []handed, items []wire.PolledItem) {
	s := p.s
	if p.id == "" || len(items) == 0 || s.closed {
		return
	}
	s.acknowledge()
	h := &batch{poll: p.id, items: items}
	for i := range items {
		it := &items[i]
		h.bytes += itemOverhead + len(it.Params) + it.Left.Size()
		h.runs = append(h.runs, taken[i].run)
		taken[i].run.batch = h
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
	return h != nil && p.id == h.poll
}

// again returns for a repeated poll what was returned before and is still the worker's. The
// start is reported, so that nothing is returned that the engine has taken back since. A
// batch that was given up is handed back instead: its worker has shown that it does not have
// it. Empty: the poll continues. REQUIRES: mu.
func (h *batch) again(s *session) (taken []handed) {
	for i, r := range h.runs {
		switch {
		case s.runs[r.token] != r || r.cancelled:
		case h.items == nil:
			s.release(r, "reply_lost")
		default:
			taken = append(taken, handed{r, h.items[i], true})
		}
	}
	if len(taken) == 0 {
		s.acknowledge()
	}
	return taken
}
