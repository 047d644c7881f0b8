package dispatcher

import (
	"errors"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// intakeMsg is a message of the intake stream: a submission, or why it is none.
type intakeMsg struct {
	seq    uint64
	submit core.Submit
	err    error // an *events.Error
	typ    events.Type
	msg    *nats.Msg
	weight int64  // of the read-ahead's budget
	asked  *asked // nil: the dedup hook was not asked about it
}

// intakeJob is a run of messages of the intake stream. When it is abandoned,
// the next ownership reads them again: the log has not answered them.
type intakeJob struct {
	msgs   []*intakeMsg
	budget *semaphore.Weighted
	asked  *askedGroup // those that the dedup hook was asked about; nil: none
}

func (j *intakeJob) len() int { return len(j.msgs) }

// decide answers a message with events, whatever it is: those that refuse it
// are as much of an answer.
func (j *intakeJob) decide(l *loop, i int) error {
	m := j.msgs[i]
	if m.seq <= l.state.Meta().IntakeSeq {
		return nil // read again after a disturbance
	}
	err := m.err
	if err == nil {
		var dec core.Decision
		if dec, _, err = l.decide(m.submit); err == nil {
			if m.asked != nil {
				m.asked.became = dec.ID
			}
			return nil
		}
	}
	var refused *events.Error
	if !errors.As(err, &refused) {
		return err
	}
	_, _, err = l.decide(m.reject(refused))
	return err
}

func (j *intakeJob) finish() {
	n := int64(0)
	for i := range j.msgs {
		n += j.msgs[i].weight
	}
	j.budget.Release(n)
	if j.asked != nil {
		j.asked.end()
	}
}

func (j *intakeJob) abandon(*events.Error) { j.finish() }

// parseIntake makes a submission of a message. at is when it was published.
func parseIntake(seq uint64, at time.Time, msg *nats.Msg, cfg *Config, newID events.ID) *intakeMsg {
	in := &intakeMsg{seq: seq, msg: msg}
	sub, err := wire.ParseSubmission(msg.Subject, msg.Header, msg.Data, cfg.Names)
	if t, terr := events.ParseType(sub.Type); terr == nil {
		in.typ = t
	}
	if err == nil {
		// The bound of params is the type's: Decide knows it.
		in.submit, err = sub.Command(newID, math.MaxInt)
	}
	msgID := msg.Header.Get(nats.MsgIdHdr)
	if err == nil { // what the submission itself says was checked by Command
		_, err = events.CheckText("message id", msgID, events.MaxKeyLen)
	}
	if err != nil {
		in.err = err
		return in
	}
	in.submit.Intake = events.Intake{Seq: seq, MsgID: msgID}
	in.submit.PublishedAt = at
	return in
}

// reject is the command that records why the message became no item. The core
// keeps as much of the original as an event has room for.
func (m *intakeMsg) reject(why *events.Error) core.Reject {
	return core.Reject{Type: m.typ, Rejected: events.Rejected{
		Code: string(why.Code), Message: why.Message, Subject: m.msg.Subject, Headers: m.msg.Header,
		Text: string(m.msg.Data), Size: len(m.msg.Data), Intake: events.Intake{Seq: m.seq},
	}}
}
