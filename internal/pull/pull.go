// Package pull has the pull protocol of workers: dispatched messages, pull requests
// and how they end, acks, the engine's refusals, and a worker's standing with the
// engine. The worker runtime and the HTTP bridge share it; each decides for itself
// what to ask for, and when.
package pull

import (
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/repeat"
	"github.com/streamwright/streamwright/wire"
)

const (
	// Expires is the longest life of a pull request.
	Expires = 30 * time.Second
	// Grace is the time after which an unanswered one is surely lost.
	Grace = 5 * time.Second
	// MaxBench is the longest time for which a client whose circuit is open pulls
	// nothing before it asks again: an operator may have reset it meanwhile.
	MaxBench = 5 * time.Second
)

// Answers to a dispatched message, published to its Reply.
var (
	Ack   = []byte("+ACK")
	Renew = []byte("+WPI")
)

// Message is a dispatched message.
type Message struct {
	ID      events.ID
	RawID   string // as the message has it
	Type    string
	Token   string
	Attempt int           // 0: the message does not say
	Lease   time.Duration // as announced
	Timeout time.Duration // of the attempt; 0: the message does not say
	Trace   string
	Params  []byte
	Reply   string // where to ack and renew it
	labels  string
}

// Parse reads a dispatched message.
func Parse(m *nats.Msg) (Message, error) {
	h := m.Header
	p := Message{
		RawID: h.Get(wire.HeaderID), Type: h.Get(wire.HeaderType), Token: h.Get(wire.HeaderToken), Lease: events.DefaultLease,
		Trace: h.Get(wire.HeaderTrace), Params: m.Data, Reply: m.Reply, labels: h.Get(wire.HeaderLabels),
	}
	var err error
	if p.ID, err = events.ParseID(p.RawID); err != nil {
		return p, err
	}
	if _, err = wire.ParseToken(p.Token); err != nil {
		return p, err
	}
	if s := h.Get(wire.HeaderAttempt); s != "" {
		if p.Attempt, err = strconv.Atoi(s); err != nil {
			return p, fmt.Errorf("the attempt of item %s is %q: want a number", p.RawID, s)
		}
	}
	if d, err := time.ParseDuration(h.Get(wire.HeaderLease)); err == nil && d > 0 {
		p.Lease = d
	}
	if d, err := time.ParseDuration(h.Get(wire.HeaderDeadline)); err == nil {
		p.Timeout = d
	}
	return p, nil
}

// Labels returns the item's labels, nil if it has none.
func (m *Message) Labels() map[string]string {
	if m.labels == "" {
		return nil
	}
	labels, _ := wire.ParseLabels(m.labels) // written by the engine
	return labels
}

// Request is the body of a pull request.
type Request struct {
	Batch   int           // messages, at most
	Expires time.Duration // how long the request waits for them; 0: not said
	// NoWait ends the request when there is nothing more to be had; with Expires,
	// once at least one message has come.
	NoWait bool
}

// Body returns the request as JSON. It has no idle heartbeat: a lost request shows by
// the clock. It sets no max_bytes: with it the server sends a status after the last
// message too, which would be taken for the next request's.
func (r Request) Body() []byte {
	b := append(make([]byte, 0, 64), '{')
	if r.NoWait {
		b = append(b, `"no_wait":true,`...)
	}
	b = strconv.AppendInt(append(b, `"batch":`...), int64(r.Batch), 10)
	if r.Expires > 0 {
		b = strconv.AppendInt(append(b, `,"expires":`...), int64(r.Expires), 10)
	}
	return append(b, '}')
}

// End is the reason why the server has ended a pull request.
type End int

const (
	Alive   End = iota // it has not: an idle heartbeat
	Empty              // there was nothing, or its time is over
	Busy               // others wait for what there is
	Moved              // the server shuts down, or another leads the consumer
	Gone               // the consumer, its stream or JetStream is gone: register again
	Refused            // for another reason
)

// Status is the server's word on a pull request.
type Status struct {
	End  End
	Code string // as in HTTP
	Text string
}

// ReadStatus returns the server's word on a pull request; false if m is a
// dispatched message.
func ReadStatus(m *nats.Msg) (s Status, ok bool) {
	s.Code = m.Header.Get("Status")
	if s.Code == "" || len(m.Data) > 0 {
		return s, false
	}
	s.Text = m.Header.Get("Description")
	switch {
	case s.Code == "100":
		s.End = Alive
	case s.Code == "408" && s.Text == "Requests Pending":
		s.End = Busy
	case s.Code == "408", s.Code == "404" && s.Text == "No Messages":
		s.End = Empty
	case s.Code == "409" && (s.Text == "Leadership Change" || s.Text == "Server Shutdown"):
		s.End = Moved
	case s.Code == "503", s.Code == "404", s.Code == "409" && s.Text == "Consumer Deleted":
		s.End = Gone
	default:
		s.End = Refused
	}
	return s, true
}

// FromEngine reports whether a control message or a probe is the engine's. Others
// are answers of the NATS server to somebody who has named this subject for his
// reply.
func FromEngine(m *nats.Msg) bool { return m.Reply == "" && wire.ServerHeader(m.Header) == "" }

// Transient reports whether the refusal of a report or a registration may end by itself.
func Transient(c events.Code) bool {
	return repeat.Passes(c) || c == events.CodeInternal || c == events.CodeQueueFull
}

// Over reports whether the refusal of a report says that the run does not count any
// more.
func Over(c events.Code) bool {
	switch c {
	case events.CodeStaleToken, events.CodeWrongState, events.CodeWrongAttempt, events.CodeWrongWorker, events.CodeNotFound:
		return true
	}
	return false
}

// Outbox collects messages while a lock is held, to be published once it is
// released: a publish may wait for the network.
type Outbox struct{ messages []outgoing }

type outgoing struct {
	subject, reply string
	data           []byte
}

// Add puts a message in; reply may be empty.
func (o *Outbox) Add(subject, reply string, data []byte) {
	o.messages = append(o.messages, outgoing{subject, reply, data})
}

// Take empties the outbox and returns what was in it.
func (o *Outbox) Take() Outbox {
	taken := *o
	o.messages = nil
	return taken
}

// Publish publishes what is in the outbox, and tells failed of what could not be.
func (o Outbox) Publish(nc *nats.Conn, failed func(subject string, err error)) {
	for _, m := range o.messages {
		if err := nc.PublishMsg(&nats.Msg{Subject: m.subject, Reply: m.reply, Data: m.data}); err != nil {
			failed(m.subject, err)
		}
	}
}
