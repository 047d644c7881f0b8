package natsio

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// gone reports whether an error says that the requested object does not exist.
func gone(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 404
	}
	return errors.Is(err, jetstream.ErrMsgNotFound)
}

// noSuchMessage reports whether a delete failed because the message did not exist; the
// server has no code of its own for that.
func noSuchMessage(err error) bool {
	return gone(err) || strings.Contains(err.Error(), "not found") || strings.Contains(err.Error(), "no message found")
}

// Repair makes the streams, and the consumers of all registered workers, anew
// where they are missing.
func (p *Pusher) Repair() {
	p.chore(func(ctx context.Context) {
		if err := p.topology.EnsureStreams(ctx); err != nil {
			p.log.Warn("the streams could not be repaired", "error", err)
			return
		}
		for _, w := range p.registry.List() {
			for _, t := range w.Types {
				p.signals.consumersWanted(events.Type(t))
			}
		}
	})
}

// EnsureConsumer makes a lane's consumer.
func (p *Pusher) EnsureConsumer(key lanes.Key, lease time.Duration, tell bool) {
	p.chore(func(ctx context.Context) {
		if _, err := p.topology.EnsureConsumer(ctx, key.Type, key.Name, lease); err != nil {
			p.log.Warn("a consumer could not be made", "type", key.Type, "lane", key.Name, "error", err)
			return
		}
		if tell {
			for _, w := range p.registry.Able(key.Type, key.Name) {
				p.Control(w, wire.Control{Register: true})
			}
		}
	})
}

// DropConsumer removes a lane's consumer. The server tells workers that pull from it, and
// they register again.
func (p *Pusher) DropConsumer(key lanes.Key) {
	p.chore(func(ctx context.Context) {
		name := p.topology.Life().Consumer(key.Type, key.Name)
		p.topology.dropping.Lock()
		defer p.topology.dropping.Unlock()
		if key.Name == "" && len(p.registry.Able(key.Type, "")) > 0 {
			return // the type has come back
		}
		word := p.consumerDeleted(name)
		p.dropping.Store(word, nil)
		err := p.js.DeleteConsumer(ctx, p.cfg.Names.DispatchStream(), name)
		if err != nil {
			p.dropping.Delete(word)
		}
		if err != nil && !gone(err) {
			p.log.Warn("a consumer could not be removed: the next sweep tries again", "consumer", name, "error", err)
		}
	})
}

// FindConsumers lists the consumers of the dispatch stream, except those that belong to no
// lane.
func (p *Pusher) FindConsumers() {
	p.chore(func(ctx context.Context) {
		var found []lanes.Key
		life, names := p.topology.Life(), p.topology.dispatchStream().ConsumerNames(ctx)
		for name := range names.Name() {
			if t, lane, ok := life.ParseConsumer(name); ok {
				found = append(found, lanes.Key{Type: t, Name: lane})
			}
		}
		if err := names.Err(); err != nil {
			p.log.Debug("sweep: the consumers could not be listed", "error", err)
			return
		}
		p.signals.ConsumersFound(found)
	})
}

// PurgeIntake removes the intake messages up to and including a position.
func (p *Pusher) PurgeIntake(through uint64) {
	p.chore(func(ctx context.Context) {
		s, err := p.js.Stream(ctx, p.cfg.Names.IntakeStream())
		if err == nil {
			err = s.Purge(ctx, jetstream.WithPurgeSequence(through+1))
		}
		if err != nil {
			p.log.Warn("the answered part of the intake could not be purged", "through", through, "error", err)
		}
	})
}

// maxStrays is the number of messages by which the dispatch stream may exceed the
// dispatched items before strays are looked for: some are always about to be deleted.
const maxStrays = 100

// LookAround makes sure that the streams exist, corrects the clock, and removes stale
// messages from the dispatch stream.
func (p *Pusher) LookAround(live map[events.Token]bool, newest events.Token) {
	p.chore(func(ctx context.Context) {
		if err := p.topology.EnsureStreams(ctx); err != nil {
			p.log.Warn("sweep: the streams could not be looked at", "error", err)
			return
		}
		p.Look(ctx)
		s := p.topology.dispatchStream()
		info, err := s.Info(ctx)
		if err != nil || info.State.Msgs <= uint64(len(live)+maxStrays) {
			return
		}
		var strays []uint64
		err = scanDispatched(ctx, p.cfg.Conn, s, p.cfg.Names, func(seq uint64, _ events.ID, token events.Token, _ time.Duration) error {
			if token <= newest && !live[token] {
				strays = append(strays, seq)
			}
			return nil
		})
		if err == nil {
			err = deleteMsgs(ctx, s, strays)
		}
		p.log.Info("sweep: removed left-over messages from the dispatch stream", "messages", len(strays), "error", err)
	})
}

// Inspect finds which of a lane's unclaimed messages have had their only delivery, or are
// gone, and leaves signals for them.
func (p *Pusher) Inspect(key lanes.Key, waiting []Stored) {
	p.chore(func(ctx context.Context) {
		s := p.topology.dispatchStream()
		cons, err := s.Consumer(ctx, p.topology.Life().Consumer(key.Type, key.Name))
		if err != nil {
			if gone(err) {
				p.signals.consumersWanted(key.Type)
			}
			return
		}
		info := cons.CachedInfo()
		undelivered := waiting[:0:0]
		for _, w := range waiting {
			if w.Seq <= info.Delivered.Stream {
				p.signals.MessageSpent(w.Token)
			} else {
				undelivered = append(undelivered, w)
			}
		}
		if info.NumPending >= uint64(len(undelivered)) {
			return // they wait for a worker to pull them
		}
		for _, w := range undelivered {
			if _, err := s.GetMsg(ctx, w.Seq); gone(err) {
				p.signals.PushFailed(w.Token)
			} else if err != nil {
				return
			}
		}
	})
}
