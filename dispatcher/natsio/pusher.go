package natsio

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/registry"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// maxChores bounds the requests that wait for the chore goroutine. A request that finds no
// room is dropped; the sweep makes up for it.
const maxChores = 4096

// choreTimeout bounds one such request.
const choreTimeout = 5 * time.Second

// Pusher sends the loop's messages: dispatched items, control messages, and occasional
// requests to the server (chores), done by a goroutine of its own so that the loop never
// waits for an answer.
type Pusher struct {
	// Look is called with each sweep, once the streams are known to be there.
	Look func(context.Context)
	// Cut cuts the log below a frame. It is called by RunCuts, one at a time.
	Cut func(ctx context.Context, below uint64) error

	nc       *nats.Conn
	js       jetstream.JetStream
	cfg      *Config
	log      *slog.Logger
	signals  *Signals
	topology *Topology
	registry *registry.Registry

	inbox string // acks of dispatched messages come to inbox.<token>
	// nativeInbox is the same for messages of the native stream.
	nativeInbox string
	native      jetstream.Stream // see nativeStream
	pushed      runHeader        // of the last push; the loop's
	subjects    map[lanes.Key]string
	life        wire.Life             // of the subjects
	parcels     map[recipient]*parcel // assigned items to be sent, by inbox; the loop's
	filled      int                   // bytes in parcels
	chores      chan func(context.Context)
	spent       spentMsgs
	dropped     atomic.Int64 // chores that found no room and are not yet logged
	saidDropped atomic.Int64 // when that was last logged, nanoseconds since 1970
	cuts        chan uint64
	dropping    sync.Map // advisory subjects of the consumers that this engine removes
}

// NewPusher makes the pusher of an ownership. Look and Cut must be set before it runs.
func NewPusher(t *Topology, r *registry.Registry, sig *Signals) *Pusher {
	nc := t.cfg.Conn
	return &Pusher{
		nc: nc, js: t.js, cfg: &t.cfg, log: t.log, signals: sig, topology: t, registry: r,
		inbox: nc.NewInbox() + ".", nativeInbox: nc.NewInbox() + ".", chores: make(chan func(context.Context), maxChores),
		cuts: make(chan uint64, 1), subjects: map[lanes.Key]string{}, parcels: map[recipient]*parcel{},
	}
}

// maxRunSubjects bounds the subjects that a pusher remembers.
const maxRunSubjects = 4096

// maxAckBytes bounds the acks that wait to be handled; an ack that finds no room counts as
// lost.
const maxAckBytes = 64 << 20

// Listen subscribes to the answers to pushes, and to the server's advisories that somebody
// has deleted a stream or a consumer. stop ends the subscriptions.
func (p *Pusher) Listen() (stop func(), err error) {
	var subs []*nats.Subscription
	stop = func() {
		for _, s := range subs {
			_ = s.Unsubscribe()
		}
	}
	deleted := func(m *nats.Msg) {
		if _, ours := p.dropping.LoadAndDelete(m.Subject); !ours {
			p.Repair()
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

// consumerDeleted returns the subject of the server's advisory that a consumer of the
// dispatch stream is gone.
func (p *Pusher) consumerDeleted(name string) string {
	return "$JS.EVENT.ADVISORY.CONSUMER.DELETED." + p.cfg.Names.DispatchStream() + "." + name
}

// Run does the chores until ctx ends.
func (p *Pusher) Run(ctx context.Context) {
	p.topology.callWorkers()
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

// chore queues a request, and reports whether there was room for it.
func (p *Pusher) chore(fn func(context.Context)) bool {
	select {
	case p.chores <- fn:
		return true
	default:
		p.choreDropped()
		return false
	}
}

// sayDropped is the shortest time between two warnings that chores were dropped.
const sayDropped = 10 * time.Second

// choreDropped counts a chore that found no room, and logs that now and then: when there
// are too many, they come by the thousand.
func (p *Pusher) choreDropped() {
	now := time.Now()
	n := p.dropped.Add(1)
	said := p.saidDropped.Load()
	if now.UnixNano()-said < int64(sayDropped) || !p.saidDropped.CompareAndSwap(said, now.UnixNano()) {
		return
	}
	p.dropped.Add(-n)
	p.log.Warn("too many requests to the server are waiting: leaving some to the sweep", "left", n)
}

// Push sends an item to its lane. A signal reports whether it arrived.
func (p *Pusher) Push(it *events.Item, params []byte, token events.Token, lease time.Duration, lane string) {
	key := lanes.Key{Type: it.Type, Name: lane}
	if life := p.topology.Life(); life != p.life {
		clear(p.subjects)
		p.life = life
	}
	subject, known := p.subjects[key]
	if !known {
		if len(p.subjects) >= maxRunSubjects {
			clear(p.subjects)
		}
		subject = p.life.Run(p.cfg.Names, it.Type, lane)
		p.subjects[key] = subject
	}
	h := p.pushed.fill(it, token, lease, p.trace(it, token))
	err := p.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: p.inbox + p.pushed.token[0], Header: h, Data: params})
	if err != nil {
		p.log.Debug("an item could not be dispatched", "id", it.ID, "error", err)
		p.signals.PushFailed(token)
	}
}

// header returns the header of a dispatched message.
func (p *Pusher) header(it *events.Item, token events.Token, lease time.Duration) nats.Header {
	return new(runHeader).fill(it, token, lease, p.trace(it, token))
}

// trace returns the traceparent of a run, empty for none.
func (p *Pusher) trace(it *events.Item, token events.Token) string {
	if p.cfg.Traceparent != nil {
		if t := p.cfg.Traceparent(it, token); t != "" {
			return t
		}
	}
	return it.Trace
}

// acked handles the server's reply to a push.
func (p *Pusher) acked(m *nats.Msg) {
	var token events.Token
	if err := token.UnmarshalText([]byte(m.Subject[len(p.inbox):])); err != nil {
		return
	}
	if seq, ok := pubAckSeq(m.Data); ok {
		p.signals.Pushed(token, seq)
		return
	}
	p.log.Debug("the server refused a dispatched item", "token", token, "reply", string(m.Data), "status", m.Header.Get("Status"))
	p.signals.PushFailed(token)
}

// pubAckSeq returns the sequence in a JetStream ack, false if the reply is an error.
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

// Control sends a worker a control message. It is a hint: the reply to the worker's next
// report or heartbeat says the same.
func (p *Pusher) Control(w events.WorkerID, c wire.Control) {
	data, err := json.Marshal(c)
	if err == nil {
		err = p.nc.Publish(p.cfg.Names.Control(w), data)
	}
	if err != nil {
		p.log.Warn("a worker could not be told", "worker", w, "error", err)
	}
}

// CutLog hands a cut to RunCuts. If RunCuts is busy, the loop tries again later.
func (p *Pusher) CutLog(below uint64) {
	select {
	case p.cuts <- below:
	default:
	}
}

// RunCuts cuts the log on request, until ctx ends.
func (p *Pusher) RunCuts(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case below := <-p.cuts:
			if err := p.Cut(ctx, below); err != nil {
				p.log.Warn("the log could not be cut: trying again", "below", below, "error", err)
				continue
			}
			p.log.Info("the log has been cut", "below", below)
			p.signals.LogCut(below)
		}
	}
}

// runHeader is the header of dispatched messages. The next message reuses its memory, since
// publishing copies; the zero value is ready to use.
type runHeader struct {
	h nats.Header

	id, typ, attempt, token, lease, timeout, trace [1]string
	leaseOf, timeoutOf                             time.Duration // the values behind the texts
}

// fill makes r the header of an item's dispatch. The result is valid until the next call.
func (r *runHeader) fill(it *events.Item, token events.Token, lease time.Duration, trace string) nats.Header {
	if r.h == nil {
		r.lease[0], r.timeout[0] = r.leaseOf.String(), r.timeoutOf.String()
		r.h = nats.Header{
			wire.HeaderID: r.id[:], wire.HeaderType: r.typ[:], wire.HeaderAttempt: r.attempt[:], wire.HeaderToken: r.token[:],
			wire.HeaderLease: r.lease[:], wire.HeaderDeadline: r.timeout[:],
		}
	}
	if lease != r.leaseOf {
		r.leaseOf, r.lease[0] = lease, lease.String()
	}
	if it.Timeout != r.timeoutOf {
		r.timeoutOf, r.timeout[0] = it.Timeout, it.Timeout.String()
	}
	r.id[0], r.typ[0], r.attempt[0], r.token[0], r.trace[0] = it.ID.String(), string(it.Type), strconv.Itoa(int(it.Attempt)+1), token.String(), trace
	if len(it.Labels) > 0 {
		r.h[wire.HeaderLabels] = wire.LabelHeader(it.Labels)
	} else {
		delete(r.h, wire.HeaderLabels)
	}
	if trace != "" {
		r.h[wire.HeaderTrace] = r.trace[:]
	} else {
		delete(r.h, wire.HeaderTrace)
	}
	return r.h
}
