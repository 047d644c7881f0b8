// Package beat lets the engines that can reach one log hear of each other: the owner says
// several times in the life of its lease that it is there, and at once when it gives the
// lease away. Nothing here decides: the lease's bucket says who tries to own the log, and
// the log alone who may append.
package beat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/wire"
)

const (
	// heirsLead is the time for which a lease that was given to a named heir is left to that
	// one.
	heirsLead = time.Second
	// leadersLead is the time for which a lease that its owner has left is left to the node
	// whose server leads the log.
	leadersLead = 500 * time.Millisecond
	// pulseWithin bounds one question whether the owner's program is there, and pulses is the
	// number of answers in a row that it is not before it counts as gone.
	pulseWithin = 200 * time.Millisecond
	pulses      = 2
)

// Word is an engine's message about the lease that it holds.
type Word struct {
	Owner    string `json:"owner"`
	Node     string `json:"node"`               // its data folder
	Pulse    bool   `json:"pulse,omitempty"`    // it answers on Names.Pulse
	Released bool   `json:"released,omitempty"` // it gives the lease away
	Heir     string `json:"heir,omitempty"`     // to that one, if it is there
	// Because says why it gives the lease away; empty: it stops, or can't serve the log. An
	// owner says how the one before it went.
	Because wire.TakeoverCause `json:"because,omitempty"`
	Epoch   events.Epoch       `json:"epoch,omitempty"` // of its ownership, where it owns the log
	// Give is set by an engine that is not the owner's: the owner should hand the log on to
	// that one.
	Give string `json:"give,omitempty"`
}

// Config configures a [Beat]. All fields are required.
type Config struct {
	Conn  *nats.Conn
	Names wire.Names
	Owner string        // this engine's name
	Node  string        // its data folder
	TTL   time.Duration // life of the lease
	Leads func() bool   // whether this node's server leads the log
}

// Beat hears the other engines, and speaks for this one. Its methods may be called at once
// from several goroutines.
type Beat struct {
	cfg     Config
	changed chan struct{}
	taken   chan struct{}
	heard   chan struct{}
	asked   chan Asked
	subs    []*nats.Subscription

	mu     sync.Mutex // guards what follows
	last   Word       // of another engine
	at     time.Time
	until  time.Time          // when this engine may take a lease that another was named heir of
	absent int                // answers in a row that the program of last is not connected
	epoch  events.Epoch       // of this engine's last ownership; 0: none
	why    wire.TakeoverCause // how the owner before this engine went
}

// Listen returns a Beat that hears what is said from now on.
func Listen(cfg Config) (*Beat, error) {
	b := &Beat{cfg: cfg, changed: make(chan struct{}, 1), taken: make(chan struct{}, 1), heard: make(chan struct{}, 1), asked: make(chan Asked, 1)}
	answer := func(m *nats.Msg) { _ = m.Respond(nil) } // fails when the connection is closed
	for subject, fn := range map[string]nats.MsgHandler{cfg.Names.Lease(0): b.hear, cfg.Names.Pulse(0, cfg.Node): answer} {
		sub, err := cfg.Conn.Subscribe(subject, fn)
		if err != nil {
			b.Close()
			return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
		}
		b.subs = append(b.subs, sub)
	}
	return b, nil
}

// Close ends hearing.
func (b *Beat) Close() {
	for _, s := range b.subs {
		_ = s.Unsubscribe() // fails when the connection is closed
	}
}

// Changed receives when the lease may be free, Taken when another engine says that it owns the
// log, and Heard too, each time that it says so.
func (b *Beat) Changed() <-chan struct{} { return b.changed }
func (b *Beat) Taken() <-chan struct{}   { return b.taken }
func (b *Beat) Heard() <-chan struct{}   { return b.heard }

// Epoch returns the epoch of another engine's ownership that was heard of last; 0: it has given
// the log away, or there was none.
func (b *Beat) Epoch() events.Epoch {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last.Epoch
}

// Asked is the wish that the owner hands the log on to another node.
type Asked struct {
	To      string
	Because wire.TakeoverCause
	m       *nats.Msg
}

// Answer says that the log was handed on, or with an error why it was not.
func (a Asked) Answer(err error) {
	var why []byte
	if err != nil {
		why = []byte(err.Error())
	}
	_ = a.m.Respond(why) // who has gone needs no answer
}

// Asked receives what the owner is asked for. An engine that does not own the log has nothing
// to answer.
func (b *Beat) Asked() <-chan Asked { return b.asked }

// Ask asks the owner, which may be this engine, to hand the log on to a node, and waits until it
// has, or refuses.
func (b *Beat) Ask(ctx context.Context, to string, because wire.TakeoverCause) error {
	data, err := json.Marshal(Word{Owner: b.cfg.Owner, Node: b.cfg.Node, Give: to, Because: because})
	if err != nil {
		return err
	}
	m, err := b.cfg.Conn.RequestWithContext(ctx, b.cfg.Names.Lease(0), data)
	if err == nil && len(m.Data) > 0 {
		err = errors.New(string(m.Data))
	}
	return err
}

// Own says that this engine owns the log from now on, in an epoch.
func (b *Beat) Own(epoch events.Epoch) error {
	b.mu.Lock()
	b.epoch = epoch
	switch {
	case b.last.Released:
		b.why = cmp.Or(b.last.Because, wire.TakeoverHandedOver)
	case b.last.Owner != "":
		b.why = wire.TakeoverSilent
	}
	b.mu.Unlock()
	return b.Here()
}

// Here says that this engine, which has called Own, is there and owns the log.
func (b *Beat) Here() error {
	b.mu.Lock()
	w := Word{Epoch: b.epoch, Because: b.why}
	b.mu.Unlock()
	return b.say(w)
}

// Release says that this engine gives the lease away: to the heir, if it is not empty.
func (b *Beat) Release(heir string, because wire.TakeoverCause) error {
	return b.say(Word{Released: true, Heir: heir, Because: because})
}

// say tells the other engines how it is with the lease.
func (b *Beat) say(w Word) error {
	w.Owner, w.Node, w.Pulse = b.cfg.Owner, b.cfg.Node, true
	data, err := json.Marshal(w)
	if err == nil {
		err = b.cfg.Conn.Publish(b.cfg.Names.Lease(0), data)
	}
	return err
}

// hear takes the word of another engine.
func (b *Beat) hear(m *nats.Msg) {
	var w Word
	if json.Unmarshal(m.Data, &w) != nil {
		return
	}
	if w.Give != "" { // this engine's own word too: it may be the owner that it asks
		select {
		case b.asked <- Asked{To: w.Give, Because: w.Because, m: m}:
		default: // another is asked already
		}
		return
	}
	if w.Node == b.cfg.Node {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last, b.at, b.until, b.absent = w, time.Now(), time.Time{}, 0
	if !w.Released {
		nudge.Send(b.taken)
		nudge.Send(b.heard)
		return
	}
	if w.Heir != "" && w.Heir != b.cfg.Owner {
		b.until = time.Now().Add(heirsLead)
	}
	nudge.Send(b.changed)
}

// Owner returns who was heard to hold the lease a short while ago; empty: nobody. The lease
// of an owner that is silent is over after the lease's life; after a third of it, if the
// owner's program is not connected to NATS any more, which is asked once a call. A node whose
// own server leads the log is the first to think that nobody holds the lease.
func (b *Beat) Owner(ctx context.Context) string {
	lead := leadersLead
	if b.cfg.Leads() {
		lead = 0
	}
	b.mu.Lock()
	last, silent, left := b.last, time.Since(b.at)-lead, time.Until(b.until) > 0
	b.mu.Unlock()
	over := !left
	if !last.Released {
		over = silent >= b.cfg.TTL || silent >= b.cfg.TTL/3 && b.gone(ctx, last)
	}
	if over {
		return ""
	}
	return last.Owner
}

// gone asks whether an owner's program is connected to NATS, and reports whether it was not
// as often as it takes to be sure.
func (b *Beat) gone(ctx context.Context, w Word) bool {
	if !w.Pulse {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, pulseWithin)
	defer cancel()
	_, err := b.cfg.Conn.RequestWithContext(ctx, b.cfg.Names.Pulse(0, w.Node), nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.last != w: // it has said something meanwhile
		return false
	case errors.Is(err, nats.ErrNoResponders):
		b.absent++
	default:
		b.absent = 0
	}
	return b.absent >= pulses
}

// Gone returns the data folder of the last owner, if its program is not connected any more.
func (b *Beat) Gone() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.absent < pulses {
		return ""
	}
	return b.last.Node
}

// Because says how the owner went from whom the present one has taken over; empty: that is
// not known here, or there was none.
func (b *Beat) Because(owner string) wire.TakeoverCause {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case owner == b.cfg.Owner:
		return b.why
	case owner == b.last.Owner && !b.last.Released:
		return b.last.Because
	}
	return ""
}
