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
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of each of the streams that capture words on native runs. The streams need to hold
// only what is not recorded yet: next to nothing while an engine runs. There is no bound in
// bytes, since the server would reserve that much.
const (
	nativeWordMsgs = 200_000
	nativeWordSize = 128 << 10 // bytes of one; only the reason of a +TERM can be long
	nativeWordAge  = 72 * time.Hour
)

// AtRest is the time at which a paused consumer would resume by itself.
var AtRest = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// nativeTopology holds the state of the streams of native workers, which are made when a
// type first has the protocol.
type nativeTopology struct {
	ready chan struct{} // closed once the streams exist
	once  sync.Once
	// behind counts the readers of the capturing streams that have not yet read everything
	// that was there when they began.
	behind atomic.Int32
	// lost is called when the native stream turns out to be a different one than last seen.
	lost func()

	mu      sync.Mutex // guards created
	created time.Time  // of the stream last seen
}

// EnsureAckStreams makes the native streams if they don't exist. The capturing streams come
// first, so that no word is missed.
func (t *Topology) EnsureAckStreams(ctx context.Context) (jetstream.Stream, error) {
	n, storage := t.cfg.Names, jetstream.FileStorage
	if t.cfg.MemoryOnly {
		storage = jetstream.MemoryStorage
	}
	for name, subjects := range map[string][]string{n.NativeAckStream(): {n.NativeAcks()}, n.NativeSignalStream(): n.NativeSignals()} {
		cfg := jetstream.StreamConfig{
			Name: name, Subjects: subjects, NoAck: true, Replicas: t.cfg.Replicas, Placement: connect.Placement(t.cfg.Placement), Storage: storage, Discard: jetstream.DiscardOld,
			MaxAge: nativeWordAge, MaxMsgs: nativeWordMsgs, MaxMsgSize: nativeWordSize, Duplicates: MinDuplicates,
		}
		if _, err := t.js.CreateOrUpdateStream(ctx, cfg); err != nil {
			return nil, fmt.Errorf("make stream %s: %w", name, err)
		}
	}
	t.making.Lock()
	defer t.making.Unlock()
	s, err := t.js.Stream(ctx, n.NativeStream())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		// Each life of the stream numbers its messages from another place, so that an ack
		// from an earlier life hits nothing.
		s, err = t.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: n.NativeStream(), Subjects: []string{n.Native("*")}, Storage: storage, Replicas: t.cfg.Replicas, Placement: connect.Placement(t.cfg.Placement),
			Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, MaxMsgs: int64(2*t.cfg.MaxRunning + lanes.MaxPending),
			FirstSeq: uint64(time.Now().UnixMicro()), AllowDirect: true, Duplicates: MinDuplicates,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("make stream %s: %w", n.NativeStream(), err)
	}
	t.native.seen(s.CachedInfo().Created)
	return s, nil
}

func (n *nativeTopology) seen(created time.Time) {
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
func (n *nativeTopology) made() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.created.IsZero()
}

// PushNative sends an item to the native stream. If it is sent again, it is stored once, by
// its token.
func (p *Pusher) PushNative(it *events.Item, params []byte, token events.Token, lease time.Duration) {
	tok := token.String()
	h := p.header(it, token, lease)
	h.Set(jetstream.MsgIDHeader, tok)
	err := p.nc.PublishMsg(&nats.Msg{Subject: p.cfg.Names.Native(it.Type), Reply: p.nativeInbox + tok, Header: h, Data: params})
	if err != nil {
		p.log.Debug("an item could not be dispatched", "id", it.ID, "error", err)
		p.signals.PushFailed(token)
	}
}

// nativeStored handles the server's reply to a push to the native stream.
func (p *Pusher) nativeStored(m *nats.Msg) {
	var token events.Token
	if err := token.UnmarshalText([]byte(m.Subject[len(p.nativeInbox):])); err != nil {
		return
	}
	if seq, ok := pubAckSeq(m.Data); ok {
		p.signals.PushedNative(token, seq)
		return
	}
	p.log.Debug("the server refused an item for native workers", "token", token, "reply", string(m.Data), "status", m.Header.Get("Status"))
	p.signals.PushFailed(token)
	p.repairNative()
}

// repairNative makes the native streams and consumers anew where they are missing.
func (p *Pusher) repairNative() {
	p.chore(func(ctx context.Context) {
		if !p.topology.native.made() {
			return
		}
		if _, err := p.topology.EnsureAckStreams(ctx); err != nil {
			p.log.Warn("the streams of native workers could not be repaired", "error", err)
			return
		}
		p.signals.nativeMissing()
	})
}

func (p *Pusher) DeleteNative(seq uint64) {
	if seq == 0 {
		return
	}
	p.chore(func(ctx context.Context) { p.removeNative(ctx, seq) })
}

func (p *Pusher) removeNative(ctx context.Context, seq uint64) bool {
	s, err := p.nativeStream(ctx)
	if err == nil {
		err = s.DeleteMsg(ctx, seq)
	}
	if err != nil && !noSuchMessage(err) {
		p.log.Warn("a native worker's message could not be deleted", "sequence", seq, "error", err)
		return false
	}
	return true
}

// nativeStream returns a handle of the native stream, by its name.
func (p *Pusher) nativeStream(ctx context.Context) (jetstream.Stream, error) {
	if p.native == nil { // owned by the chore goroutine
		s, err := p.js.Stream(ctx, p.cfg.Names.NativeStream())
		if err != nil {
			return nil, err
		}
		p.native = s
	}
	return p.native, nil
}

// CleanNative removes messages whose outcome is recorded. What a failure leaves is below
// the floor of a later call.
func (p *Pusher) CleanNative(floor uint64, ended []uint64) {
	clean := func(ctx context.Context) {
		defer p.signals.NativeCleaned()
		s, err := p.nativeStream(ctx)
		if err == nil {
			err = s.Purge(ctx, jetstream.WithPurgeSequence(floor))
		}
		if err != nil {
			p.log.Warn("what native workers have done with could not be removed", "error", err)
			return
		}
		for _, seq := range ended {
			if ctx.Err() != nil || !p.removeNative(ctx, seq) {
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

func (p *Pusher) EnsureNative(c ackmode.Consumer) {
	p.chore(func(ctx context.Context) {
		if err := p.topology.EnsureAckConsumer(ctx, c); err != nil {
			p.log.Warn("a native consumer could not be made", "type", c.Type, "error", err)
			return
		}
		p.signals.NativeMade(c.Type)
	})
}

// WithdrawNative pauses a consumer, and then takes back what it has not delivered.
func (p *Pusher) WithdrawNative(c ackmode.Consumer, waiting []Stored) {
	p.chore(func(ctx context.Context) {
		err := p.topology.EnsureAckConsumer(ctx, c)
		var cons jetstream.Consumer
		if err == nil {
			cons, err = p.js.Consumer(ctx, p.cfg.Names.NativeStream(), string(c.Type))
		}
		if err != nil {
			p.log.Warn("what native workers have not been given could not be taken back", "type", c.Type, "error", err)
			return
		}
		delivered := cons.CachedInfo().Delivered.Stream
		var looks []ackmode.Look
		for _, w := range waiting {
			if w.Seq > delivered && p.removeNative(ctx, w.Seq) {
				looks = append(looks, ackmode.Look{Token: w.Token, Finding: ackmode.TakenBack})
			}
		}
		p.signals.NativeLooks(looks)
	})
}

// stillNative reports whether a dispatch's message is still where it was stored.
func (p *Pusher) stillNative(ctx context.Context, s jetstream.Stream, w Stored) (bool, error) {
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

// LookUpNative finds the dispatch that a word is about. A message that is gone needs no
// word.
func (p *Pusher) LookUpNative(w ackmode.Word) {
	p.chore(func(ctx context.Context) {
		s, err := p.nativeStream(ctx)
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

// HoldNatives stops the delivery of messages to native workers until an engine has taken
// over. It must be called when the NATS server has started and nobody else can reach it.
func HoldNatives(ctx context.Context, js jetstream.JetStream, names wire.Names) error {
	s, err := js.Stream(ctx, names.NativeStream())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("hold native workers: %w", err)
	}
	list := s.ListConsumers(ctx)
	for c := range list.Info() {
		if c.Paused {
			continue
		}
		if _, err := js.PauseConsumer(ctx, c.Stream, c.Name, AtRest); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("hold native workers: consumer %s: %w", c.Name, err)
		}
	}
	if err := list.Err(); err != nil {
		return fmt.Errorf("hold native workers: %w", err)
	}
	return nil
}
