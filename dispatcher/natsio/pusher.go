package natsio

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// maxChores bounds the requests that wait for the chore goroutine. A request that finds no
// room is dropped; the sweep makes up for it.
const maxChores = 4096

// choreTimeout bounds one such request.
const choreTimeout = 5 * time.Second

// Pusher sends the loop's messages: items, control messages, and occasional requests to the
// server (chores), done by a goroutine of its own so that the loop never waits for an
// answer.
type Pusher struct {
	// Look is called with each sweep, once the intake stream is known to be there.
	Look func(context.Context)
	// Cut cuts the log below a frame. It is called by RunCuts, one at a time.
	Cut func(ctx context.Context, below uint64) error

	nc       *nats.Conn
	js       jetstream.JetStream
	cfg      *Config
	log      *slog.Logger
	signals  *Signals
	topology *Topology

	ackInbox    string                // answers to pushes come to ackInbox.<token>
	dispatch    jetstream.Stream      // see dispatchStream
	parcels     map[recipient]*parcel // assigned items to be sent; the loop's
	filled      int                   // bytes in parcels
	chores      chan func(context.Context)
	dropped     atomic.Int64 // chores that found no room and are not yet logged
	saidDropped atomic.Int64 // when that was last logged, nanoseconds since 1970
	cuts        chan uint64
}

// NewPusher makes the pusher of an ownership. Look and Cut must be set before it runs.
func NewPusher(t *Topology, sig *Signals) *Pusher {
	nc := t.cfg.Conn
	return &Pusher{
		nc: nc, js: t.js, cfg: &t.cfg, log: t.log, signals: sig, topology: t,
		ackInbox: nc.NewInbox() + ".", chores: make(chan func(context.Context), maxChores),
		cuts: make(chan uint64, 1), parcels: map[recipient]*parcel{},
	}
}

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
	acks := func(*nats.Msg) { p.repairAcks() }
	for subject, fn := range map[string]nats.MsgHandler{
		"$JS.EVENT.ADVISORY.STREAM.DELETED." + p.cfg.Names.IntakeStream(): func(*nats.Msg) { p.repairIntake() },
		p.ackInbox + "*": p.ackStored,
		"$JS.EVENT.ADVISORY.STREAM.DELETED." + p.cfg.Names.DispatchStream():          acks,
		"$JS.EVENT.ADVISORY.CONSUMER.DELETED." + p.cfg.Names.DispatchStream() + ".*": acks,
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

// Run does the chores until ctx ends.
func (p *Pusher) Run(ctx context.Context) {
	p.callWorkers()
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

// callWorkers asks all workers to register: the new owner may not know them, or what they
// offer, and their heartbeats may be far. It is a hint.
func (p *Pusher) callWorkers() {
	data, err := json.Marshal(wire.Control{Register: true})
	if err == nil {
		err = p.nc.Publish(p.cfg.Names.ControlAll(), data)
	}
	if err != nil {
		p.log.Warn("the workers could not be called: their heartbeats will tell of them", "error", err)
	}
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

// header returns the header of the message of an ack type.
func (p *Pusher) header(d *table.Dispatch, it *events.Item) nats.Header {
	h := nats.Header{
		wire.HeaderID: {it.ID.String()}, wire.HeaderType: {string(it.Type)}, wire.HeaderAttempt: {strconv.Itoa(int(it.Attempt) + 1)}, wire.HeaderToken: {d.Token.String()},
		wire.HeaderLease: {d.Lease.String()}, wire.HeaderDeadline: {it.Timeout.String()},
	}
	if len(it.Labels) > 0 {
		h[wire.HeaderLabels] = wire.LabelHeader(it.Labels)
	}
	if trace := p.trace(it, d.Token); trace != "" {
		h[wire.HeaderTrace] = []string{trace}
	}
	return h
}
