package dispatcher

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// intakeMsg is a message of the intake stream: a submission, or why it is none.
type intakeMsg struct {
	seq    uint64
	submit events.Submit
	err    error // an *events.Error
	typ    events.Type
	msg    *nats.Msg
}

// intakeReader follows the intake stream from where the log left off. It needs
// no acks: the events say which messages have been answered. It reads ahead by
// a bounded number of messages; when the loop takes none, it stops.
type intakeReader struct {
	cfg   *Config
	newID func() events.ID
	out   chan<- job

	ctx  context.Context
	mu   sync.Mutex
	buf  []intakeMsg // waiting for the loop
	wake chan struct{}
}

// read runs until ctx ends or the stream can't be read any more.
func (r *intakeReader) read(ctx context.Context, js jetstream.JetStream, after uint64) error {
	r.ctx, r.wake = ctx, make(chan struct{}, 1)
	cons, err := js.OrderedConsumer(ctx, r.cfg.Names.IntakeStream(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{r.cfg.Names.Intake(r.cfg.Partition, "*")},
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
	})
	if err != nil {
		return fmt.Errorf("read intake: %w", err)
	}
	room := make(chan struct{}, 4*maxIntakeBatch)
	cc, err := cons.Consume(func(m jetstream.Msg) {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		r.take(m)
	}, jetstream.PullMaxMessages(1000), jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		r.cfg.Logger.Warn("intake: reading was disturbed", "error", err)
	}))
	if err != nil {
		return fmt.Errorf("read intake: %w", err)
	}
	defer func() { cc.Stop(); <-cc.Closed() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-cc.Closed():
			return fmt.Errorf("read intake: the consumer has ended")
		case <-r.wake:
		}
		for batch := r.grab(); len(batch) > 0; batch = r.grab() {
			select {
			case r.out <- &intakeJob{msgs: batch}:
			case <-ctx.Done():
				return nil
			}
			for range batch {
				<-room
			}
		}
	}
}

// take parses a message, in the consumer's goroutine.
func (r *intakeReader) take(m jetstream.Msg) {
	seq, ok := streamSeq(m.Reply())
	if !ok {
		return
	}
	msg := &nats.Msg{Subject: m.Subject(), Header: nats.Header(m.Headers()), Data: m.Data()}
	in := parseIntake(seq, msg, r.cfg, r.newID())
	r.mu.Lock()
	r.buf = append(r.buf, in)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// grab takes the next batch that waits for the loop.
func (r *intakeReader) grab() []intakeMsg {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.buf), maxIntakeBatch)
	batch := r.buf[:n:n]
	if r.buf = r.buf[n:]; len(r.buf) == 0 {
		r.buf = nil
	}
	return batch
}

// streamSeq reads the stream sequence from an ack subject, which is
// $JS.ACK.<stream>.<consumer>.<delivered>.<sseq>.<cseq>.<time>.<pending>, or
// the same with a domain and an account hash before the stream.
func streamSeq(reply string) (uint64, bool) {
	tokens := strings.Split(reply, ".")
	at := 5
	if len(tokens) > 9 {
		at = 7
	}
	if len(tokens) <= at {
		return 0, false
	}
	n := uint64(0)
	for _, c := range []byte(tokens[at]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}

func parseIntake(seq uint64, msg *nats.Msg, cfg *Config, newID events.ID) intakeMsg {
	in := intakeMsg{seq: seq, msg: msg}
	sub, err := wire.ParseSubmission(msg.Subject, msg.Header, msg.Data, cfg.Names)
	if t, terr := events.ParseType(sub.Type); terr == nil {
		in.typ = t
	}
	if err == nil {
		// The bound of params is the type's: Decide knows it.
		in.submit, err = sub.Command(newID, math.MaxInt)
	}
	if err != nil {
		in.err = err
		return in
	}
	in.submit.Intake = events.Intake{Seq: seq, MsgID: msg.Header.Get(nats.MsgIdHdr)}
	return in
}

// reject is the command that records why the message became no item.
func (m *intakeMsg) reject(why *events.Error) events.Reject {
	r := events.Rejected{
		Code: string(why.Code), Message: why.Message, Subject: clean(m.msg.Subject, 2*events.MaxNameLen),
		Size: len(m.msg.Data), Intake: events.Intake{Seq: m.seq}, Headers: boundedHeaders(m.msg.Header),
	}
	body := m.msg.Data
	if len(body) > events.MaxRejectedBytes {
		body, r.Truncated = body[:events.MaxRejectedBytes], true
	}
	if utf8.Valid(body) {
		r.Text = string(body)
	} else {
		r.Bytes = body
	}
	return events.Reject{Type: m.typ, Rejected: r}
}

// boundedHeaders keeps up to 64 headers, 16 KiB in all.
func boundedHeaders(h nats.Header) map[string][]string {
	const most, bytes = 64, 16 << 10
	out := map[string][]string{}
	size := 0
	for k, vs := range h {
		k = clean(k, events.MaxNameLen)
		for _, v := range vs {
			v = clean(v, events.MaxErrorText)
			if size += len(k) + len(v); size > bytes || len(out) >= most {
				return out
			}
			out[k] = append(out[k], v)
		}
	}
	return out
}

// clean makes a text fit for an event: valid UTF-8 of bounded length.
func clean(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}
