package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
)

// Bounds of each of the streams that capture what is said of native runs. They
// need to hold what is not recorded yet: while an engine is there, next to
// nothing. There is no bound in bytes, which the server would set aside.
const (
	nativeWordMsgs = 200_000
	nativeWordSize = 128 << 10 // of one, in bytes: the reason of a +TERM is all that can be long
	nativeWordAge  = 72 * time.Hour
)

// atRest is when a consumer that is paused would go on by itself.
var atRest = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// nativeTopology is the streams of native workers. They are made when a type
// first has the protocol.
type nativeTopology struct {
	ready chan struct{} // closed once they are there
	once  sync.Once
	// behind counts the readers of the streams that capture which have not yet
	// read what was there when they began.
	behind atomic.Int32
	// lost is called when the native stream turned out to be another than the
	// one last seen.
	lost func()

	mu      sync.Mutex // guards created
	created time.Time  // of the stream last seen
}

// ensureNativeStreams makes the native streams if they are not there. Those
// that capture come first: the server says nothing that nobody hears.
func (t *topology) ensureNativeStreams(ctx context.Context) (jetstream.Stream, error) {
	n, storage := t.cfg.Names, jetstream.FileStorage
	if t.cfg.MemoryOnly {
		storage = jetstream.MemoryStorage
	}
	for name, subjects := range map[string][]string{n.NativeAckStream(): {n.NativeAcks()}, n.NativeSignalStream(): n.NativeSignals()} {
		cfg := jetstream.StreamConfig{
			Name: name, Subjects: subjects, NoAck: true, Replicas: t.cfg.Replicas, Storage: storage, Discard: jetstream.DiscardOld,
			MaxAge: nativeWordAge, MaxMsgs: nativeWordMsgs, MaxMsgSize: nativeWordSize, Duplicates: minDuplicates,
		}
		if _, err := t.js.CreateOrUpdateStream(ctx, cfg); err != nil {
			return nil, fmt.Errorf("make stream %s: %w", name, err)
		}
	}
	t.making.Lock()
	defer t.making.Unlock()
	s, err := t.js.Stream(ctx, n.NativeStream())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		// Each life of it numbers its messages from another place, so that an ack
		// from an earlier one hits nothing.
		s, err = t.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: n.NativeStream(), Subjects: []string{n.Native("*")}, Storage: storage, Replicas: t.cfg.Replicas,
			Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, MaxMsgs: int64(2*t.cfg.MaxRunning + lanes.MaxPending),
			FirstSeq: uint64(time.Now().UnixMicro()), AllowDirect: true, Duplicates: minDuplicates,
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

// made reports whether the streams have been made by this engine, or found.
func (n *nativeTopology) made() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.created.IsZero()
}

// pushNative sends an item to the native stream. Sent again it is stored once,
// by its token.
func (p *pusher) pushNative(it *events.Item, params []byte, token events.Token, lease time.Duration) {
	tok := token.String()
	h := p.header(it, token, lease)
	h.Set(jetstream.MsgIDHeader, tok)
	err := p.nc.PublishMsg(&nats.Msg{Subject: p.cfg.Names.Native(it.Type), Reply: p.nativeInbox + tok, Header: h, Data: params})
	if err != nil {
		p.log.Debug("an item could not be dispatched", "id", it.ID, "error", err)
		p.signals.pushFailed(token)
	}
}

// nativeStored hears what became of a push to the native stream.
func (p *pusher) nativeStored(m *nats.Msg) {
	var token events.Token
	if err := token.UnmarshalText([]byte(m.Subject[len(p.nativeInbox):])); err != nil {
		return
	}
	if seq, ok := pubAckSeq(m.Data); ok {
		p.signals.pushedNative(token, seq)
		return
	}
	p.log.Debug("the server refused an item for native workers", "token", token, "reply", string(m.Data), "status", m.Header.Get("Status"))
	p.signals.pushFailed(token)
	p.repairNative()
}

// repairNative makes the native streams and consumers anew where they are
// missing.
func (p *pusher) repairNative() {
	p.chore(func(ctx context.Context) {
		if !p.topology.native.made() {
			return
		}
		if _, err := p.topology.ensureNativeStreams(ctx); err != nil {
			p.log.Warn("the streams of native workers could not be repaired", "error", err)
			return
		}
		p.signals.nativeMissing()
	})
}

func (p *pusher) deleteNative(seq uint64) {
	if seq == 0 {
		return
	}
	p.chore(func(ctx context.Context) { p.removeNative(ctx, seq) })
}

func (p *pusher) removeNative(ctx context.Context, seq uint64) bool {
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

// nativeStream is a handle of the native stream, by its name.
func (p *pusher) nativeStream(ctx context.Context) (jetstream.Stream, error) {
	if p.native == nil { // owned by the chore goroutine
		s, err := p.js.Stream(ctx, p.cfg.Names.NativeStream())
		if err != nil {
			return nil, err
		}
		p.native = s
	}
	return p.native, nil
}

// cleanNative removes messages whose outcome is recorded. What a failure leaves
// lies below the floor of a later one.
func (p *pusher) cleanNative(floor uint64, ended []uint64) {
	clean := func(ctx context.Context) {
		defer p.signals.nativeCleaned()
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

func (p *pusher) ensureNative(c nativeConsumer) {
	p.chore(func(ctx context.Context) {
		if err := p.topology.ensureNative(ctx, c); err != nil {
			p.log.Warn("a native consumer could not be made", "type", c.typ, "error", err)
			return
		}
		p.signals.nativeMade(c.typ)
	})
}

// withdrawNative takes back what a consumer has not delivered, once it delivers
// no more.
func (p *pusher) withdrawNative(c nativeConsumer, waiting []pushAck) {
	p.chore(func(ctx context.Context) {
		err := p.topology.ensureNative(ctx, c)
		var cons jetstream.Consumer
		if err == nil {
			cons, err = p.js.Consumer(ctx, p.cfg.Names.NativeStream(), string(c.typ))
		}
		if err != nil {
			p.log.Warn("what native workers have not been given could not be taken back", "type", c.typ, "error", err)
			return
		}
		delivered := cons.CachedInfo().Delivered.Stream
		var looks []nativeLook
		for _, w := range waiting {
			if w.seq > delivered && p.removeNative(ctx, w.seq) {
				looks = append(looks, nativeLook{w.token, nativeTakenBack})
			}
		}
		p.signals.nativeLooks(looks)
	})
}

// stillNative reports whether a dispatch's message is where it was put.
func (p *pusher) stillNative(ctx context.Context, s jetstream.Stream, w pushAck) (bool, error) {
	m, err := s.GetMsg(ctx, w.seq)
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, token, _ := dispatchedBy(m.Header)
	return token == w.token, nil
}

// lookUpNative finds out which dispatch a word is about. A message that is gone
// needs no word any more.
func (p *pusher) lookUpNative(w nativeWord) {
	p.chore(func(ctx context.Context) {
		s, err := p.nativeStream(ctx)
		if err != nil {
			return
		}
		m, err := s.GetMsg(ctx, w.seq)
		if err != nil {
			return
		}
		if _, token, ok := dispatchedBy(m.Header); ok {
			w.token = token
			p.signals.nativeWord(w)
		}
	})
}
