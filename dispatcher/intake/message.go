package intake

import (
	"maps"
	"math"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/dispatcher/dedup"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// Message is a message of the intake stream, or of a site's: a submission, or the error that
// rejects it.
type Message struct {
	Seq    uint64
	Site   string // empty: the intake stream
	Submit core.Submit
	Err    error // an *events.Error

	typ    events.Type
	msg    *nats.Msg
	weight int64 // share of the reader's budget
}

// Batch is a run of consecutive messages.
type Batch struct {
	Messages []*Message
	Asked    *dedup.Group // submissions that the dedup hook was asked about; nil: none
	release  func([]*Message)
}

// End frees the batch's room: the batch is durable, or nobody will decide it.
func (b *Batch) End() {
	if b.release != nil {
		b.release(b.Messages)
	}
	b.Asked.End()
}

// origin says which message of which stream an event answers.
func (m *Message) origin() events.Intake {
	if m.Site != "" {
		return events.Intake{Site: m.Site, SiteSeq: m.Seq}
	}
	return events.Intake{Seq: m.Seq}
}

// Answered reports whether an event answers the message already.
func (m *Message) Answered(by events.Meta) bool {
	if m.Site != "" {
		return m.Seq <= by.SiteSeq(m.Site)
	}
	return m.Seq <= by.IntakeSeq
}

// ParseSite makes a submission of a message of a site's stream. The site's server alone
// compares message ids: what repeats one within its window is not in the stream, and other
// sites may use the same ids.
func ParseSite(site string, seq uint64, msg *nats.Msg, names wire.Names, newID events.ID) *Message {
	in := Parse(seq, time.Time{}, msg, names, newID)
	in.Site = site
	in.Submit.Intake = in.origin()
	return in
}

// Parse makes a submission of a message published at time at.
func Parse(seq uint64, at time.Time, msg *nats.Msg, names wire.Names, newID events.ID) *Message {
	in := &Message{Seq: seq, msg: msg}
	sub, err := wire.ParseSubmission(msg.Subject, msg.Header, msg.Data, names)
	if t, terr := events.ParseType(sub.Type); terr == nil {
		in.typ = t
	}
	if err == nil {
		// The limit on params belongs to the type, and Decide checks it.
		in.Submit, err = command.OfSubmit(sub, newID, math.MaxInt)
	}
	msgID := msg.Header.Get(nats.MsgIdHdr)
	if err == nil { // OfSubmit has checked the submission itself
		_, err = events.CheckText("message id", msgID, events.MaxKeyLen)
	}
	if err != nil {
		in.Err = err
		return in
	}
	in.Submit.Intake = events.Intake{Seq: seq, MsgID: msgID}
	in.Submit.PublishedAt = at
	return in
}

// Reject returns the command that records why the message became no item. The core keeps as
// much of the original as an event has room for.
func (m *Message) Reject(why *events.Error) core.Reject {
	headers := maps.Clone(m.msg.Header)
	// The server's word about the sender has the name of his account, which nobody else may know.
	maps.DeleteFunc(headers, func(name string, _ []string) bool { return strings.EqualFold(name, wire.HeaderRequestInfo) })
	return core.Reject{Type: m.typ, Rejected: events.Rejected{
		Code: string(why.Code), Message: why.Message, Subject: m.msg.Subject, Headers: headers,
		Text: string(m.msg.Data), Size: len(m.msg.Data), Intake: m.origin(),
	}}
}
