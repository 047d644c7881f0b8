package bridge

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/internal/pull"
	"github.com/streamwright/streamwright/wire"
)

// run is one dispatch of one item, from its arrival until its end is answered.
type run struct {
	// Immutable.
	id    string
	token string
	reply string        // where the message is acked and renewed; empty: no longer
	lease time.Duration // as announced

	// Guarded by Bridge.mu.
	item      *wire.PolledItem // until it is handed out
	renewed   time.Time        // arrival, or the last renewal
	claimed   bool
	cancelled bool   // the worker is to stop it
	loaded    int    // bytes of it that count
	batch     *batch // that it was returned in, as long as that may be asked for again
}

// readRun reads a dispatched message.
func readRun(m *nats.Msg, now time.Time) (*run, error) {
	msg, err := pull.Parse(m)
	if err != nil {
		return nil, err
	}
	r := &run{id: msg.RawID, token: msg.Token, reply: msg.Reply, renewed: now, lease: msg.Lease}
	r.item = &wire.PolledItem{
		ID: r.id, Type: msg.Type, Token: r.token, Attempt: msg.Attempt, LeaseMS: r.lease.Milliseconds(), TimeoutMS: msg.Timeout.Milliseconds(),
		Params: json.RawMessage(msg.Params), Labels: msg.Labels(), Trace: msg.Trace,
	}
	if len(msg.Params) == 0 {
		r.item.Params = json.RawMessage("null")
	}
	return r, nil
}

// over returns the time at which the lease ends if it is not renewed.
func (r *run) over() time.Time { return r.renewed.Add(r.lease) }

// ack lets a run's message go. REQUIRES: mu.
func (b *Bridge) ack(r *run) {
	if r.reply != "" {
		b.outbox.Add(r.reply, "", pull.Ack)
	}
}

// unload forgets a run's item, which is handed out or goes back. REQUIRES: mu.
func (b *Bridge) unload(r *run) {
	b.loaded -= r.loaded
	r.item, r.loaded = nil, 0
}

// adopt takes a run for the worker's that was claimed before the engine or this
// bridge was restarted. REQUIRES: mu.
func (s *session) adopt(id, token string, now time.Time) {
	s.runs[token] = &run{id: id, token: token, lease: s.longest, renewed: now, claimed: true}
}

// finish ends a run whose end the engine has answered. REQUIRES: mu.
func (s *session) finish(r *run) {
	s.b.unload(r)
	if s.runs[r.token] != r {
		return
	}
	delete(s.runs, r.token)
	s.forget(r.token)
	s.b.ack(r)
	s.polling.poke() // a slot is free
}

// lapse forgets the runs whose lease is over: the server has told the engine. It
// returns when the next one will be. REQUIRES: mu.
func (s *session) lapse(now time.Time) (next time.Time) {
	for token, r := range s.runs {
		if end := r.over(); end.After(now) {
			next = sooner(next, end)
			continue
		}
		delete(s.runs, token)
		s.forget(token)
	}
	return next
}

// forget remembers that a run is not the worker's any more. Of runs beyond the
// bound the engine knows. REQUIRES: mu.
func (s *session) forget(token string) {
	s.gone = append(s.gone, token)
	if excess := len(s.gone) - max(2*s.reg.Slots, 16); excess > 0 {
		s.gone = slices.Delete(s.gone, 0, excess)
	}
}

// free returns how many more items the worker may be given. REQUIRES: mu.
func (s *session) free() int { return s.reg.Slots - len(s.runs) }

// giveBack releases what has arrived and was not handed out. REQUIRES: mu.
func (s *session) giveBack(reason string) {
	for _, r := range s.inbox {
		s.release(r, reason)
	}
	s.inbox = nil
}
