package dispatcher

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/registry"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// maxChores bounds the requests to the server that wait for the chore
// goroutine. One that finds no room is dropped; the sweep makes up for it.
const maxChores = 4096

// choreTimeout bounds one such request.
const choreTimeout = 5 * time.Second

// pusher sends the loop's messages: dispatched items, control messages, and
// the rare requests to the server (chores), which it does in a goroutine of
// its own so that the loop never waits for an answer. See outside.
type pusher struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	cfg      *Config
	log      *slog.Logger
	clock    *clock.Clock
	signals  *signals
	topology *topology
	registry *registry.Registry

	inbox string // acks of dispatched messages come to inbox.<token>
	// nativeInbox is the same of those in the native stream.
	nativeInbox string
	native      jetstream.Stream // see nativeStream
	pushed      runHeader        // of the last push; the loop's
	subjects    map[lanes.Key]string
	chores      chan func(context.Context)
	spent       spentMsgs
	dropped     atomic.Int64 // chores that found no room, not yet said
	saidDropped atomic.Int64 // when it was last said, nanoseconds since 1970
	cuts        chan events.Seq
	dropping    sync.Map // subjects of the server's word that a consumer is gone which we have removed
}

var _ outside = (*pusher)(nil)

func newPusher(e *Engine, sig *signals, clk *clock.Clock) *pusher {
	return &pusher{
		nc: e.cfg.Conn, js: e.js, cfg: &e.cfg, log: e.cfg.Logger, clock: clk, signals: sig, topology: e.topology, registry: e.registry,
		inbox: e.cfg.Conn.NewInbox() + ".", nativeInbox: e.cfg.Conn.NewInbox() + ".", chores: make(chan func(context.Context), maxChores),
		cuts: make(chan events.Seq, 1), subjects: map[lanes.Key]string{},
	}
}

// maxRunSubjects bounds the subjects that a pusher remembers.
const maxRunSubjects = 4096

// maxAckBytes bounds the acks that wait to be heard; one that finds no room
// counts as lost.
const maxAckBytes = 64 << 20

// listen subscribes to what run, the only other one to be called after it,
// gives up again: the answers to pushes, and the server's word that somebody
// has deleted a stream or a consumer.
func (p *pusher) listen() (stop func(), err error) {
	var subs []*nats.Subscription
	stop = func() {
		for _, s := range subs {
			_ = s.Unsubscribe()
		}
	}
	deleted := func(m *nats.Msg) {
		if _, ours := p.dropping.LoadAndDelete(m.Subject); !ours {
			p.repair()
		}
	}
	native := func(*nats.Msg) { p.repairNative() }
	for subject, fn := range map[string]nats.MsgHandler{
		p.inbox + "*": p.acked,
		"$JS.EVENT.ADVISORY.STREAM.DELETED." + p.cfg.Names.DispatchStream(): deleted,
		"$JS.EVENT.ADVISORY.STREAM.DELETED." + p.cfg.Names.IntakeStream():   deleted,
		"$JS.EVENT.ADVISORY.STREAM.DELETED." + p.cfg.Names.LeaseStream():    deleted,
		p.consumerDeleted("*"): deleted,
		p.nativeInbox + "*":    p.nativeStored,
		"$JS.EVENT.ADVISORY.STREAM.DELETED." + p.cfg.Names.NativeStream():          native,
		"$JS.EVENT.ADVISORY.CONSUMER.DELETED." + p.cfg.Names.NativeStream() + ".*": native,
	} {
		s, err := p.nc.Subscribe(subject, fn)
		if err == nil {
			subs = append(subs, s)
			err = s.SetPendingLimits(-1, maxAckBytes)
		}
		if err != nil {
			stop()
			return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
		}
	}
	return stop, nil
}

// consumerDeleted is the subject of the server's word that a consumer of the
// dispatch stream is gone.
func (p *pusher) consumerDeleted(name string) string {
	return "$JS.EVENT.ADVISORY.CONSUMER.DELETED." + p.cfg.Names.DispatchStream() + "." + name
}

// run does the chores until ctx ends.
func (p *pusher) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case chore := <-p.chores:
			c, cancel := context.WithTimeout(ctx, choreTimeout)
			chore(c)
			cancel()
		}
	}
}

// chore has a request done, and reports whether there was room for it.
func (p *pusher) chore(fn func(context.Context)) bool {
	select {
	case p.chores <- fn:
		return true
	default:
		p.choreDropped()
		return false
	}
}

// sayDropped is how often it is said, at most, that chores were dropped.
const sayDropped = 10 * time.Second

// choreDropped counts a chore that found no room, and says so now and then: when
// there are too many they come by the thousand.
func (p *pusher) choreDropped() {
	now := time.Now()
	n := p.dropped.Add(1)
	said := p.saidDropped.Load()
	if now.UnixNano()-said < int64(sayDropped) || !p.saidDropped.CompareAndSwap(said, now.UnixNano()) {
		return
	}
	p.dropped.Add(-n)
	p.log.Warn("too many requests to the server are waiting: leaving some to the sweep", "left", n)
}

// push sends an item to its lane. Whether it arrived is told by signals.
func (p *pusher) push(it *events.Item, params []byte, token events.Token, lease time.Duration, lane string) {
	key := lanes.Key{Type: it.Type, Name: lane}
	subject, known := p.subjects[key]
	if !known {
		if len(p.subjects) >= maxRunSubjects {
			clear(p.subjects)
		}
		subject = p.cfg.Names.Run(it.Type, lane)
		p.subjects[key] = subject
	}
	h := p.pushed.fill(it, token, lease, p.trace(it, token))
	err := p.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: p.inbox + p.pushed.token[0], Header: h, Data: params})
	if err != nil {
		p.log.Debug("an item could not be dispatched", "id", it.ID, "error", err)
		p.signals.pushFailed(token)
	}
}

// header is the header of a dispatched message.
func (p *pusher) header(it *events.Item, token events.Token, lease time.Duration) nats.Header {
	return new(runHeader).fill(it, token, lease, p.trace(it, token))
}

// trace is the traceparent of a run, empty for none.
func (p *pusher) trace(it *events.Item, token events.Token) string {
	if p.cfg.Traceparent != nil {
		if t := p.cfg.Traceparent(it, token); t != "" {
			return t
		}
	}
	return it.Trace
}

// acked hears what became of a push.
func (p *pusher) acked(m *nats.Msg) {
	var token events.Token
	if err := token.UnmarshalText([]byte(m.Subject[len(p.inbox):])); err != nil {
		return
	}
	if seq, ok := pubAckSeq(m.Data); ok {
		p.signals.pushed(token, seq)
		return
	}
	p.log.Debug("the server refused a dispatched item", "token", token, "reply", string(m.Data), "status", m.Header.Get("Status"))
	p.signals.pushFailed(token)
}

// pubAckSeq reads the sequence of a JetStream ack, false if it is an error.
func pubAckSeq(data []byte) (uint64, bool) {
	if bytes.Contains(data, []byte(`"error"`)) {
		return 0, false
	}
	_, rest, ok := bytes.Cut(data, []byte(`"seq":`))
	if !ok {
		return 0, false
	}
	n, digits := uint64(0), 0
	for _, c := range bytes.TrimLeft(rest, " ") {
		if c < '0' || c > '9' {
			break
		}
		n, digits = n*10+uint64(c-'0'), digits+1
	}
	return n, digits > 0
}

// control tells a worker something. It is a hint: the worker's next report or
// heartbeat says the same.
func (p *pusher) control(w events.WorkerID, c wire.Control) {
	data, err := json.Marshal(c)
	if err == nil {
		err = p.nc.Publish(p.cfg.Names.Control(w), data)
	}
	if err != nil {
		p.log.Warn("a worker could not be told", "worker", w, "error", err)
	}
}
