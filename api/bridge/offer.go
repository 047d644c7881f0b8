package bridge

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/internal/standing"
	"github.com/streamwright/streamwright/wire"
)

const (
	// holdLimit bounds the wait of an item that no open poll has room for. If no other poll
	// comes in that time, the item goes back.
	holdLimit = 100 * time.Millisecond

	shortPause = 50 * time.Millisecond
	longPause  = time.Second

	unknown = -1 // room that the engine may know of
)

// offer is what a session offers to the engine. Guarded by Bridge.mu.
type offer struct {
	room int  // how many more items the open poll takes; 0: no poll is open
	told int  // what the last offer said, less what has come since
	busy bool // an offer is on its way
}

// listen subscribes to the session's items, unless that is done. Of several engines at
// which a worker polls, the last one hears them: the others are told to stop. An item that
// arrives meanwhile reaches one of them.
func (s *session) listen(ctx context.Context) error {
	b := s.b
	unlock, err := s.serialize(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	b.mu.Lock()
	done := s.sub != nil || s.closed
	b.mu.Unlock()
	if done {
		return nil
	}
	sub, err := b.cfg.Conn.ChanQueueSubscribe(b.cfg.Names.RunsOf(s.reg.Session), "bridge", b.arriving)
	if err == nil && b.cfg.Shared {
		err = b.tellOthers(s.id)
	}
	if err == nil {
		err = b.cfg.Conn.FlushTimeout(callTimeout) // an item that comes before is lost
	}
	b.mu.Lock()
	defer b.unlock()
	if sub != nil {
		if err != nil || s.closed {
			b.idle = append(b.idle, sub)
		} else {
			s.sub = sub
		}
	}
	if err != nil {
		return events.Refuse(events.CodeUnavailable, "subscribe to the items of worker %s: %v", s.id, err)
	}
	return nil
}

// silence ends the subscription to the session's items. REQUIRES: mu.
func (s *session) silence() {
	if s.sub != nil {
		s.b.idle = append(s.b.idle, s.sub)
		s.sub = nil
	}
}

// tellOthers tells the bridges of other engines that a worker polls here from now on.
func (b *Bridge) tellOthers(worker string) error {
	body, err := json.Marshal(wire.Control{Polls: b.id})
	if err != nil {
		return err
	}
	return b.cfg.Conn.Publish(b.cfg.Names.Control(events.WorkerID(worker)), body)
}

// movedTo follows from the worker's poll at another engine: one that is open here ends.
// REQUIRES: mu.
func (s *session) movedTo(other string) {
	if other == s.b.id {
		return
	}
	if s.polling != nil {
		s.polling.replaced = true
		s.polling.poke()
	}
	s.silence()
	s.giveBack(s.inbox, "moved")
	s.offer = offer{busy: s.offer.busy, told: unknown}
}

// tell has the engine told of the room, if it knows of another. What cannot be told while no
// poll is open is not told again: what comes goes back, and the engine then sends nothing
// before the next offer. REQUIRES: mu.
func (s *session) tell() {
	o := &s.offer
	if o.busy || o.told == o.room || s.closed || s.b.ctx.Err() != nil || s.b.stopping && o.room > 0 {
		return
	}
	room := o.room
	o.busy, o.told = true, room
	s.b.loops.Go(func() { s.send(room) })
}

// send makes an offer to the engine.
func (s *session) send(room int) {
	b := s.b
	ctx, cancel := context.WithTimeout(b.ctx, callTimeout)
	defer cancel()
	var ok wire.OK
	err := b.call(ctx, wire.APIOffer, wire.Offer{Worker: s.id, Session: s.reg.Session, Room: room}, &ok)
	_ = s.idTaken(err)
	b.mu.Lock()
	defer b.unlock()
	s.offer.busy = false
	if err != nil {
		if events.CodeOf(err) == events.CodeUnknownWorker {
			s.Registered = false
		}
		s.offer.told = unknown
		s.benched = later(s.benched, time.Now().Add(shortPause))
		b.log.Debug("an offer was refused", "worker", s.id, "room", room, "error", err)
		s.polling.poke()
		return
	}
	s.tell()
}

// takeArriving takes in the items that the engine sends to the sessions, until Stop.
func (b *Bridge) takeArriving() {
	for {
		select {
		case <-b.ctx.Done():
			return
		case m := <-b.arriving:
			b.arrived(m)
		}
	}
}

// arrived takes in a message of items.
func (b *Bridge) arrived(m *nats.Msg) {
	if !standing.FromEngine(m) {
		return
	}
	now := time.Now()
	b.mu.Lock()
	defer b.unlock()
	s := b.listening[m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]]
	if s == nil {
		return // its session has ended: the engine takes it back
	}
	var err error
	if b.list, err = wire.DecodeAssigned(b.list[:0], m.Data); err != nil {
		b.log.Error("items can't be read: the engine takes them back", "subject", m.Subject, "error", err)
		return
	}
	for i := range b.list {
		s.arrive(&b.list[i], now)
	}
	clear(b.list)
}

// arrive takes in an item for the open poll, or for the next one. REQUIRES: mu.
func (s *session) arrive(a *wire.Assigned, now time.Time) {
	b := s.b
	token, err := wire.ParseToken(a.Token)
	if err != nil {
		b.log.Error("an item can't be read: the engine takes it back", "item", a.ID, "error", err)
		return
	}
	if token < s.fence || s.knows(a.Token) {
		return // it came too late, or twice
	}
	if s.offer.told > 0 {
		s.offer.told--
	}
	if s.offer.room > 0 {
		s.offer.room--
	}
	r, size := readRun(a, now), len(a.Params)+a.Left.Size()
	switch {
	case s.Draining || b.stopping:
		s.release(r, "no_poll")
	case b.loaded > 0 && b.loaded+size > b.cfg.MaxLoadedBytes:
		// Not again at once: another engine's worker, or this one's in a while.
		s.benched = later(s.benched, now.Add(longPause))
		s.release(r, "no_room")
	default:
		r.loaded = size
		b.loaded += size
		s.inbox = append(s.inbox, r)
		if s.polling == nil {
			nudge.Send(b.kick)
		}
	}
	s.polling.poke()
}

// knows reports whether an item with the token has come before. REQUIRES: mu.
func (s *session) knows(token string) bool {
	if s.runs[token] != nil {
		return true
	}
	for _, r := range s.inbox {
		if r.token == token {
			return true
		}
	}
	return false
}

// expireHeld hands back what has waited for a poll for too long, and returns when to look
// again. REQUIRES: mu.
func (s *session) expireHeld(now time.Time) (next time.Time) {
	n := 0
	for n < len(s.inbox) && now.Sub(s.inbox[n].renewed) >= holdLimit {
		n++
	}
	s.giveBack(s.inbox[:n], "no_poll")
	if len(s.inbox) == 0 {
		return time.Time{}
	}
	return s.inbox[0].renewed.Add(holdLimit)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sooner returns the earlier of two times. Zero stands for never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
