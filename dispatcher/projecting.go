package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
)

// Durable batches are projected as follows. The first batch after a rest is projected at
// once. After it, a commit begins no sooner than projectEvery after the last one, and takes
// all that has become durable meanwhile: an item that is queued, claimed, run and completed
// in between is written once. A commit begins sooner if somebody waits for a position or an
// item (see projection.due), or if so much has gathered.
const (
	projectEvery   = 10 * time.Millisecond
	projectEvents  = 4 * 1024
	projectBatches = MaxUnprojected / 2
	projectBytes   = maxBatchBytes
)

// projection holds what the projecting goroutine commits next. The goroutine owns it.
type projection struct {
	in    <-chan *batch
	store *projector.Store
	// asked, if set, reports whether somebody waits for what a batch has changed.
	asked func(*core.Changes) bool

	batches []*batch
	changes []*core.Changes // of batches
	events  int
	bytes   int
	now     bool   // batches must be committed without delay
	alone   bool   // batches holds one that can't be committed with others
	held    *batch // taken already, for the next commit
	began   time.Time
	timer   *time.Timer
}

func newProjection(from *pipeline) *projection {
	p := &projection{in: from.toCommit, store: from.cfg.Store, asked: from.cfg.Hooks.Awaited, timer: time.NewTimer(time.Hour)}
	p.timer.Stop()
	return p
}

// gather waits for batches to commit together. It reports false when there are none and
// will be none.
func (p *projection) gather() bool {
	clear(p.batches)
	clear(p.changes)
	p.batches, p.changes, p.events, p.bytes, p.now, p.alone = p.batches[:0], p.changes[:0], 0, 0, false, false
	b, ok := p.held, true
	if p.held = nil; b == nil {
		if b, ok = <-p.in; !ok {
			return false
		}
	}
	if wait := projectEvery - time.Since(p.began); wait > 0 {
		p.timer.Reset(wait)
		defer p.timer.Stop()
	} else {
		p.now = true
	}
	for p.add(b) && !p.due() {
		select {
		case b, ok = <-p.in:
			if !ok {
				return true
			}
		case <-p.store.Awaited(): // see due
			b = nil
		case <-p.timer.C:
			p.now = true
			b = nil
		}
	}
	p.began = time.Now()
	return true
}

// add takes a batch in, unless it must not be committed with those before it.
func (p *projection) add(b *batch) bool {
	if b == nil {
		return true
	}
	alone := !projector.Gathers(b.changes)
	if len(p.batches) > 0 && (alone || p.alone) {
		p.held = b
		return false
	}
	p.batches, p.changes = append(p.batches, b), append(p.changes, b.changes)
	p.events += len(b.changes.History) + 1
	p.bytes += b.bytes
	p.alone = alone
	p.now = p.now || p.asked != nil && p.asked(b.changes)
	return true
}

// due reports whether the batches must not wait for more. Batches that are there already
// are all taken first.
func (p *projection) due() bool {
	if p.events >= projectEvents || p.bytes >= projectBytes || len(p.batches) >= projectBatches || p.alone {
		return true
	}
	return (p.now || p.store.Waited()) && len(p.in) == 0
}

// commit is the projecting goroutine. After a failure it only empties its channel.
func (p *pipeline) commit() {
	var failed error
	next := newProjection(p)
	for next.gather() {
		if failed == nil {
			failed = p.cfg.Store.Commit(next.changes...)
		}
		if failed == nil && p.cfg.Hooks.Projected != nil {
			for _, c := range next.changes {
				p.cfg.Hooks.Projected(c)
			}
		}
		p.commits <- commitResult{batches: len(next.batches), seq: next.changes[len(next.changes)-1].Meta.Applied, err: failed}
	}
}
