package door

import (
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/dispatcher/intake"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/weight"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Message is a plain publish.
type Message struct {
	*intake.Message

	raw    *nats.Msg
	number uint64 // in the order of arrival
	size   int64

	decided   bool
	back      bool   // the stream takes it
	handle    uint64 // the sequence in the ack
	duplicate bool
}

// Batch is a run of consecutive messages.
type Batch struct {
	Messages []*Message
	door     *Door
}

// parse makes a submission of the message.
func (m *Message) parse(cfg *Config) {
	m.raw.Subject = cfg.Names.Intake(cfg.Partition, typeOf(m.raw))
	m.Message = intake.Parse(0, cfg.Now(), m.raw, cfg.Names, cfg.NewID())
	if m.Err == nil {
		cfg.Rate(&m.Submit)
	}
}

// GiveBack has the stream take the message, undecided. Those behind it must follow.
func (b *Batch) GiveBack(i int) {
	b.door.shut.Store(true)
	b.Messages[i].back = true
}

// Shut reports whether messages are to be given back.
func (b *Batch) Shut() bool { return b.door.Shut() }

// Became notes the item that the message has become, or repeats; nil for none. at is the
// position of the last event that was decided.
func (m *Message) Became(it *events.Item, at events.Seq, repeat bool) {
	m.decided, m.duplicate = true, repeat
	if it != nil {
		m.handle, at = it.IntakeSeq, it.CreatedSeq
	}
	if m.handle == 0 {
		m.handle = wire.DirectIntake(at)
	}
}

// End acknowledges what was decided, which is durable now.
func (b *Batch) End() {
	for _, m := range b.Messages {
		if !m.back {
			b.door.answer(m.raw, m.ack(b.door.cfg.Names))
		}
	}
	b.door.over(b)
}

// Abandon gives the batch to the stream: nobody will decide it, or what was decided may not
// be in the log. Such a message gets the id of the item that it may have become, so that it
// makes no second one.
func (b *Batch) Abandon() {
	for _, m := range b.Messages {
		if m.back = true; m.decided && m.Err == nil && m.Submit.ID.IsZero() {
			if m.raw.Header == nil {
				m.raw.Header = nats.Header{}
			}
			m.raw.Header[wire.HeaderID] = []string{m.Submit.NewID.String()}
		}
	}
	b.door.over(b)
}

// ack returns what a stream would answer.
func (m *Message) ack(n wire.Names) []byte {
	b := append(make([]byte, 0, 96), `{"stream":"`...)
	b = append(append(b, n.IntakeStream()...), `","seq":`...)
	b = strconv.AppendUint(b, m.handle, 10)
	if n.Domain != "" {
		b = append(append(append(b, `,"domain":"`...), n.Domain...), '"')
	}
	if m.duplicate {
		b = append(b, `,"duplicate":true`...)
	}
	return append(b, '}')
}

// errTooMuch is what the server answers when its own queue is full.
var errTooMuch = []byte(`{"type":"io.nats.jetstream.api.v1.pub_ack_response","error":{"code":429,"err_code":10167,"description":"too many requests"},"stream":"","seq":0}`)

// answer sends a publisher what the stream would.
func (d *Door) answer(to *nats.Msg, data []byte) {
	if to.Reply != "" {
		_ = d.cfg.Conn.Publish(to.Reply, data) // a publisher without an ack repeats
	}
}

// forward has the stream take a message, and answer it. REQUIRES: d.mu.
func (d *Door) forward(m *Message) {
	to := nats.Msg{Subject: d.cfg.Names.Intake(d.cfg.Partition, typeOf(m.raw)), Reply: d.relay.reply(m.raw.Reply), Header: m.raw.Header, Data: m.raw.Data}
	if err := d.cfg.Conn.PublishMsg(&to); err != nil {
		d.cfg.Logger.Warn("a plain publish could not be given to the intake: its publisher repeats it", "type", typeOf(m.raw), "error", err)
	}
}

// typeOf returns the last token of a message's subject.
func typeOf(m *nats.Msg) string { return m.Subject[strings.LastIndexByte(m.Subject, '.')+1:] }

// decidable reports whether the loop can do all that a message asks of the stream. What has
// other headers for the server, or is too large for the stream, is the stream's to take or
// to refuse.
func decidable(m *nats.Msg, n wire.Names) bool {
	for name, values := range m.Header {
		if len(name) > 5 && strings.EqualFold(name[:5], "Nats-") && name != nats.MsgIdHdr && name != wire.HeaderRequestInfo &&
			(name != nats.ExpectedStreamHdr || len(values) != 1 || values[0] != n.IntakeStream()) {
			return false
		}
	}
	return len(m.Data)+weight.Headers(m.Header) <= natsio.MaxIntakeMsg
}
