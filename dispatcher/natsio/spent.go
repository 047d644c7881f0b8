package natsio

import (
	"context"
	"sync"
)

// Bounds of the messages that wait to be deleted, and of those deleted before other
// requests to the server have their turn.
const (
	maxSpent   = 1 << 16
	spentBatch = 256
)

// spentMsgs holds messages of the dispatch stream that nobody must get any more, until they
// are deleted. They come by the thousand when the last worker of many lanes leaves, so they
// wait apart from other requests to the server. A message that finds no room is left to the
// sweep. Safe for concurrent use.
type spentMsgs struct {
	mu     sync.Mutex
	seqs   []uint64
	queued bool // a chore will see to them
}

// add adds a message. chore says that a chore must be queued, full that there was no room.
func (s *spentMsgs) add(seq uint64) (chore, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if full = len(s.seqs) >= maxSpent; !full {
		s.seqs = append(s.seqs, seq)
	}
	chore = !s.queued
	s.queued = true
	return chore, full
}

// next takes some of the messages. If more is set, a chore must be queued for the rest.
func (s *spentMsgs) next() (seqs []uint64, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.seqs), spentBatch)
	seqs, s.seqs = s.seqs[:n:n], s.seqs[n:]
	if len(s.seqs) == 0 {
		s.seqs = nil
	}
	s.queued = s.seqs != nil
	return seqs, s.queued
}

// notQueued notes that there was no room for the chore; the next message tries again.
func (s *spentMsgs) notQueued() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queued = false
}

// DeleteMsg removes a dispatched message that nobody must get any more.
func (p *Pusher) DeleteMsg(seq uint64) {
	if seq == 0 {
		return
	}
	chore, full := p.spent.add(seq)
	if full {
		p.choreDropped()
	}
	if chore {
		p.queueSpent()
	}
}

func (p *Pusher) queueSpent() {
	if !p.chore(p.deleteSpent) {
		p.spent.notQueued()
	}
}

// deleteSpent deletes some of the waiting messages. Those it has no time for are left to
// the sweep.
func (p *Pusher) deleteSpent(ctx context.Context) {
	seqs, more := p.spent.next()
	if more {
		p.queueSpent() // after the chores that wait already
	}
	for i, seq := range seqs {
		err := p.topology.dispatchStream().DeleteMsg(ctx, seq)
		if err == nil || noSuchMessage(err) {
			continue
		}
		p.log.Warn("a spent message could not be deleted", "sequence", seq, "error", err)
		if ctx.Err() != nil {
			p.log.Warn("spent messages are left to the sweep", "messages", len(seqs)-i)
			return
		}
	}
}
