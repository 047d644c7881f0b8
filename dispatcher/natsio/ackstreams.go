package natsio

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of the stream that captures words on runs of ack types, two for most runs. It
// needs to hold only what is not recorded yet: next to nothing while an engine runs. There
// is no bound in bytes, since the server would reserve that much.
const (
	ackWordMsgs = 400_000
	ackWordSize = 128 << 10 // bytes of one; only the reason of a +TERM can be long
	ackWordAge  = 72 * time.Hour
)

// AtRest is the time at which a paused consumer would resume by itself.
var AtRest = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// ackTopology holds the state of the streams of ack types, which are made when a type first
// has the protocol.
type ackTopology struct {
	ready chan struct{} // closed once the streams exist
	once  sync.Once
	// behind says that the reader of the words has not yet read everything that was there
	// when it began.
	behind atomic.Bool
	// lost is called when the dispatch stream turns out to be a different one than last seen.
	lost func()

	making sync.Mutex // held while the dispatch stream is looked at

	mu      sync.Mutex // guards created
	created time.Time  // of the stream last seen
}

// EnsureAckStreams makes the streams of ack types if they don't exist. The capturing stream
// comes first, so that no word is missed.
//
// A consumer's ack does not remove a message (see package ackmode): so the stream's
// retention is by limits, not that of a work queue.
func (t *Topology) EnsureAckStreams(ctx context.Context) (jetstream.Stream, error) {
	n, storage := t.cfg.Names, jetstream.FileStorage
	if t.cfg.MemoryOnly {
		storage = jetstream.MemoryStorage
	}
	words := jetstream.StreamConfig{
		Name: n.DispatchAckStream(), Subjects: n.DispatchAcks(), NoAck: true, Replicas: t.cfg.Replicas, Placement: connect.Placement(t.cfg.Placement), Storage: storage, Discard: jetstream.DiscardOld,
		MaxAge: ackWordAge, MaxMsgs: ackWordMsgs, MaxMsgSize: ackWordSize, Duplicates: MinDuplicates,
	}
	if _, err := t.js.CreateOrUpdateStream(ctx, words); err != nil {
		return nil, fmt.Errorf("make stream %s: %w", words.Name, err)
	}
	t.acks.making.Lock()
	defer t.acks.making.Unlock()
	s, err := t.js.Stream(ctx, n.DispatchStream())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		// Each life of the stream numbers its messages from another place, so that an ack
		// from an earlier life hits nothing.
		s, err = t.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: n.DispatchStream(), Subjects: []string{n.AckRun("*")}, Storage: storage, Replicas: t.cfg.Replicas, Placement: connect.Placement(t.cfg.Placement),
			Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, MaxMsgs: int64(2*t.cfg.MaxRunning + ackmode.MaxPending),
			FirstSeq: uint64(time.Now().UnixMicro()), AllowDirect: true, Duplicates: MinDuplicates,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("make stream %s: %w", n.DispatchStream(), err)
	}
	t.acks.seen(s.CachedInfo().Created)
	return s, nil
}

func (n *ackTopology) seen(created time.Time) {
	n.mu.Lock()
	another := !n.created.IsZero() && !n.created.Equal(created)
	n.created = created
	n.mu.Unlock()
	n.once.Do(func() { close(n.ready) })
	if another {
		n.lost()
	}
}

// made reports whether this engine has made or found the streams.
func (n *ackTopology) made() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.created.IsZero()
}

// PushAck sends an item to the dispatch stream. If it is sent again, it is stored once, by
// its token.
func (p *Pusher) PushAck(d *table.Dispatch, it *events.Item, params []byte) {
	tok := d.Token.String()
	h := p.header(d, it)
	h.Set(jetstream.MsgIDHeader, tok)
	err := p.nc.PublishMsg(&nats.Msg{Subject: p.cfg.Names.AckRun(it.Type), Reply: p.ackInbox + tok, Header: h, Data: params})
	if err != nil {
		p.log.Debug("an item could not be dispatched", "id", it.ID, "error", err)
		p.signals.PushFailed(d.Token)
	}
}

// ackStored handles the server's reply to a push.
func (p *Pusher) ackStored(m *nats.Msg) {
	var token events.Token
	if err := token.UnmarshalText([]byte(m.Subject[len(p.ackInbox):])); err != nil {
		return
	}
	if seq, ok := pubAckSeq(m.Data); ok {
		p.signals.Pushed(token, seq)
		return
	}
	p.log.Debug("the server refused a dispatched item", "token", token, "reply", string(m.Data), "status", m.Header.Get("Status"))
	p.signals.PushFailed(token)
	p.repairAcks()
}

// repairAcks makes the streams and consumers of ack types anew where they are missing.
func (p *Pusher) repairAcks() {
	p.chore(func(ctx context.Context) {
		if !p.topology.acks.made() {
			return
		}
		if _, err := p.topology.EnsureAckStreams(ctx); err != nil {
			p.log.Warn("the streams of ack types could not be repaired", "error", err)
			return
		}
		p.signals.acksMissing()
	})
}

func (p *Pusher) DeleteAck(seq uint64) {
	if seq == 0 {
		return
	}
	p.chore(func(ctx context.Context) { p.removeAck(ctx, seq) })
}

func (p *Pusher) removeAck(ctx context.Context, seq uint64) bool {
	s, err := p.dispatchStream(ctx)
	if err == nil {
		err = s.DeleteMsg(ctx, seq)
	}
	if err != nil && !noSuchMessage(err) {
		p.log.Warn("a dispatched message could not be deleted", "sequence", seq, "error", err)
		return false
	}
	return true
}

// dispatchStream returns a handle of the dispatch stream, by its name.
func (p *Pusher) dispatchStream(ctx context.Context) (jetstream.Stream, error) {
	if p.dispatch == nil { // owned by the chore goroutine
		s, err := p.js.Stream(ctx, p.cfg.Names.DispatchStream())
		if err != nil {
			return nil, err
		}
		p.dispatch = s
	}
	return p.dispatch, nil
}

// CleanAcks removes messages whose outcome is recorded. What a failure leaves is below
// the floor of a later call.
func (p *Pusher) CleanAcks(floor uint64, ended []uint64) {
	clean := func(ctx context.Context) {
		defer p.signals.AcksCleaned()
		s, err := p.dispatchStream(ctx)
		if err == nil {
			err = s.Purge(ctx, jetstream.WithPurgeSequence(floor))
		}
		if err != nil {
			p.log.Warn("messages whose outcome is recorded could not be removed", "error", err)
			return
		}
		for _, seq := range ended {
			if ctx.Err() != nil || !p.removeAck(ctx, seq) {
				return
			}
		}
	}
	select {
	case p.chores <- clean:
	default:
		p.log.Warn("too many requests to the server are waiting: leaving the removal of messages to the sweep")
	}
}

func (p *Pusher) EnsureAck(c ackmode.Consumer) {
	p.chore(func(ctx context.Context) {
		if err := p.topology.EnsureAckConsumer(ctx, c); err != nil {
			p.log.Warn("a consumer could not be made", "type", c.Type, "error", err)
			return
		}
		p.signals.AckMade(c.Type)
	})
}

// WithdrawAcks pauses a consumer, and then takes back what it has not delivered.
func (p *Pusher) WithdrawAcks(c ackmode.Consumer, waiting []Stored) {
	p.chore(func(ctx context.Context) {
		err := p.topology.EnsureAckConsumer(ctx, c)
		var cons jetstream.Consumer
		if err == nil {
			cons, err = p.js.Consumer(ctx, p.cfg.Names.DispatchStream(), string(c.Type))
		}
		if err != nil {
			p.log.Warn("messages that are not delivered could not be taken back", "type", c.Type, "error", err)
			return
		}
		delivered := cons.CachedInfo().Delivered.Stream
		var looks []ackmode.Look
		for _, w := range waiting {
			if w.Seq > delivered && p.removeAck(ctx, w.Seq) {
				looks = append(looks, ackmode.Look{Token: w.Token, Finding: ackmode.TakenBack})
			}
		}
		p.signals.AckLooks(looks)
	})
}

// stillAck reports whether a dispatch's message is still where it was stored.
func (p *Pusher) stillAck(ctx context.Context, s jetstream.Stream, w Stored) (bool, error) {
	m, err := s.GetMsg(ctx, w.Seq)
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, token, _ := dispatchedBy(m.Header)
	return token == w.Token, nil
}

// LookUpAck finds the dispatch that a word is about. A message that is gone needs no
// word.
func (p *Pusher) LookUpAck(w ackmode.Word) {
	p.chore(func(ctx context.Context) {
		s, err := p.dispatchStream(ctx)
		if err != nil {
			return
		}
		m, err := s.GetMsg(ctx, w.Seq)
		if err != nil {
			return
		}
		if _, token, ok := dispatchedBy(m.Header); ok {
			w.Token = token
			p.signals.AckSignal(w)
		}
	})
}

// HoldAcks stops the delivery of messages of ack types, in all namespaces, until an engine has
// taken over. It must be called when the NATS server has started and nobody else can reach it.
func HoldAcks(ctx context.Context, js jetstream.JetStream, names wire.Names) error {
	var held []string
	list := js.StreamNames(ctx)
	for stream := range list.Name() {
		if names.IsDispatch(stream) {
			held = append(held, stream)
		}
	}
	err := list.Err()
	for _, stream := range held {
		if err == nil {
			err = holdAcks(ctx, js, stream)
		}
	}
	if err != nil {
		return fmt.Errorf("hold ack types: %w", err)
	}
	return nil
}

func holdAcks(ctx context.Context, js jetstream.JetStream, stream string) error {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	list := s.ListConsumers(ctx)
	for c := range list.Info() {
		if c.Paused {
			continue
		}
		if _, err := js.PauseConsumer(ctx, c.Stream, c.Name, AtRest); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("consumer %s: %w", c.Name, err)
		}
	}
	return list.Err()
}
