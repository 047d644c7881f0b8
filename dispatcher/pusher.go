package dispatcher

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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
// its own so that the loop never waits for an answer.
type pusher struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	cfg      *Config
	log      *slog.Logger
	signals  *signals
	topology *topology
	registry *registry

	inbox  string // acks of dispatched messages come to inbox.<token>
	sub    *nats.Subscription
	chores chan func(context.Context)
	purged uint64 // intake position; owned by the loop
}

func newPusher(e *Engine, sig *signals) (*pusher, error) {
	p := &pusher{
		nc: e.cfg.Conn, js: e.js, cfg: &e.cfg, log: e.cfg.Logger, signals: sig, topology: e.topology, registry: e.registry,
		inbox: e.cfg.Conn.NewInbox() + ".", chores: make(chan func(context.Context), maxChores),
	}
	sub, err := p.nc.Subscribe(p.inbox+"*", p.acked)
	if err != nil {
		return nil, err
	}
	p.sub = sub
	return p, sub.SetPendingLimits(-1, 64<<20)
}

// run does the chores until ctx ends.
func (p *pusher) run(ctx context.Context) {
	defer func() { _ = p.sub.Unsubscribe() }()
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

func (p *pusher) chore(fn func(context.Context)) {
	select {
	case p.chores <- fn:
	default:
		p.log.Warn("too many requests to the server are waiting: leaving one to the sweep")
	}
}

// push sends an item to its lane. Whether it arrived is told by signals.
func (p *pusher) push(it *events.Item, params []byte, token events.Token, lease time.Duration, lane string) {
	tok := token.String()
	h := nats.Header{
		wire.HeaderID:       {it.ID.String()},
		wire.HeaderType:     {string(it.Type)},
		wire.HeaderAttempt:  {strconv.Itoa(int(it.Attempt) + 1)},
		wire.HeaderToken:    {tok},
		wire.HeaderLease:    {lease.String()},
		wire.HeaderDeadline: {it.Timeout.String()},
	}
	if len(it.Labels) > 0 {
		h[wire.HeaderLabels] = wire.LabelHeader(it.Labels)
	}
	if it.Trace != "" {
		h[wire.HeaderTrace] = []string{it.Trace}
	}
	err := p.nc.PublishMsg(&nats.Msg{Subject: p.cfg.Names.Run(it.Type, lane), Reply: p.inbox + tok, Header: h, Data: params})
	if err != nil {
		p.log.Warn("an item could not be dispatched", "id", it.ID, "error", err)
		p.signals.pushFailed(token)
	}
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
	p.log.Warn("the server refused a dispatched item", "token", token, "reply", string(m.Data), "status", m.Header.Get("Status"))
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

// deleteMsg removes a dispatched message whose delivery is spent.
func (p *pusher) deleteMsg(seq uint64) {
	if seq == 0 {
		return
	}
	p.chore(func(ctx context.Context) {
		s, err := p.js.Stream(ctx, p.cfg.Names.DispatchStream())
		if err == nil {
			err = s.DeleteMsg(ctx, seq)
		}
		if err != nil && !gone(err) {
			p.log.Warn("a spent message could not be deleted", "sequence", seq, "error", err)
		}
	})
}

// gone reports whether an error says that what was to be removed is not there.
func gone(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "not found") || strings.Contains(err.Error(), "no message found"))
}

// repair makes the dispatch stream and the consumers of all registered workers
// anew, where they are missing.
func (p *pusher) repair() {
	p.chore(func(ctx context.Context) {
		if err := p.topology.ensureStreams(ctx); err != nil {
			p.log.Warn("the streams could not be repaired", "error", err)
			return
		}
		seen := map[string]bool{}
		for _, w := range p.registry.list() {
			for _, t := range w.Types {
				if !seen[t] {
					seen[t] = true
					p.signals.consumersWanted(events.Type(t))
				}
			}
		}
	})
}

// ensureConsumer makes a lane's consumer, and asks the lane's workers to
// register again, so that they hear of it.
func (p *pusher) ensureConsumer(key laneKey, lease time.Duration, tell bool) {
	p.chore(func(ctx context.Context) {
		if _, err := p.topology.ensureConsumer(ctx, key.typ, key.lane, lease); err != nil {
			p.log.Warn("a consumer could not be made", "type", key.typ, "lane", key.lane, "error", err)
			return
		}
		if tell {
			for _, w := range p.registry.able(key.typ, key.lane) {
				p.control(w, wire.Control{Register: true})
			}
		}
	})
}
