// Package directget reads messages of a stream without a consumer: many with one
// request ([Get]), which any server with the stream, or a mirror of it, may
// answer, or one from the stream's leader ([FromLeader]).
package directget

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Timeout bounds the wait for one message of an answer.
const Timeout = 5 * time.Second

// ErrUnreachable means that no server answered: try again.
var ErrUnreachable = errors.New("the stream does not answer")

// maxBytes bounds an answer for which no bound is asked, as the server does by default. It is
// said all the same: nats-server 2.15 reads its own without a lock, which a reload replaces.
const maxBytes = 64 << 20

// Request asks for the messages from a sequence or a time on.
type Request struct {
	Seq       uint64     `json:"seq,omitempty"`
	StartTime *time.Time `json:"start_time,omitempty"`
	NextFor   string     `json:"next_by_subj,omitempty"` // only on subjects that match
	LastFor   string     `json:"last_by_subj,omitempty"` // the last one on this subject, in place of all above
	Batch     int        `json:"batch,omitempty"`        // messages, at least 1; for Get alone
	MaxBytes  int        `json:"max_bytes,omitempty"`    // after so many the server ends the answer
}

// Message is a stored message. Its header also has what the get has added; see
// wire.Got.
type Message struct {
	Seq     uint64
	Subject string
	Time    time.Time
	Header  nats.Header
	Data    []byte
}

// Get sends a request to the direct get subject of a stream. pending is the number of
// matching messages after the returned ones. No match at all is not an error.
func Get(ctx context.Context, nc *nats.Conn, subject string, req Request) (msgs []Message, pending uint64, err error) {
	req.MaxBytes = cmp.Or(req.MaxBytes, maxBytes)
	body, err := json.Marshal(req)
	if err != nil {
		return nil, 0, err
	}
	inbox := nc.NewInbox()
	in := make(chan *nats.Msg, req.Batch+1) // the end, too
	sub, err := nc.ChanSubscribe(inbox, in)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest(subject, inbox, body); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	timer := time.NewTimer(Timeout)
	defer timer.Stop()
	msgs = make([]Message, 0, min(req.Batch, 64))
	for {
		select {
		case m := <-in:
			// A stored message may have a header Status, but only the server's own
			// have no sequence.
			if seq := last(m.Header, "Nats-Sequence"); seq != "" {
				msg, err := read(m, seq)
				if err != nil {
					return nil, 0, err
				}
				msgs = append(msgs, msg)
				timer.Reset(Timeout)
				continue
			}
			pending, err := end(m, msgs)
			return msgs, pending, err
		case <-timer.C:
			return nil, 0, fmt.Errorf("%w within %s", ErrUnreachable, Timeout)
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// FromLeader sends a request for one message to the message get subject of a
// stream, which its leader answers. An error of the server is a
// *jetstream.APIError: jetstream.ErrMsgNotFound if there is no such message.
func FromLeader(ctx context.Context, nc *nats.Conn, subject string, req Request) (msg Message, err error) {
	body, err := json.Marshal(req)
	if err != nil {
		return msg, err
	}
	m, err := nc.RequestWithContext(ctx, subject, body)
	if errors.Is(err, context.Canceled) {
		return msg, err
	}
	if err != nil {
		return msg, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	var reply struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		return msg, fmt.Errorf("unreadable answer of the server on %s: %w", subject, err)
	}
	if reply.Error != nil {
		return msg, reply.Error
	}
	got := &reply.Message
	msg = Message{Seq: got.Seq, Subject: got.Subject, Time: got.Time, Data: got.Data}
	if len(got.Header) > 0 {
		if msg.Header, err = nats.DecodeHeadersMsg(got.Header); err != nil {
			return msg, fmt.Errorf("unreadable header of message %d: %w", got.Seq, err)
		}
	}
	return msg, nil
}

func read(m *nats.Msg, seq string) (msg Message, err error) {
	msg = Message{Subject: last(m.Header, "Nats-Subject"), Header: m.Header, Data: m.Data}
	if msg.Seq, err = strconv.ParseUint(seq, 10, 64); err != nil {
		return msg, fmt.Errorf("read what the server has sent: its sequence: %w", err)
	}
	if msg.Time, err = time.Parse(time.RFC3339Nano, last(m.Header, "Nats-Time-Stamp")); err != nil {
		return msg, fmt.Errorf("read what the server has sent: its time: %w", err)
	}
	return msg, nil
}

// end reads how an answer has ended, and checks that none of it is missing.
func end(m *nats.Msg, msgs []Message) (pending uint64, err error) {
	switch status := m.Header.Get("Status"); status {
	case "204": // the batch is complete
		if said := m.Header.Get("Nats-Last-Sequence"); len(msgs) > 0 && said != "" && said != "0" && said != strconv.FormatUint(msgs[len(msgs)-1].Seq, 10) {
			return 0, fmt.Errorf("%w whole: it ends at %s", ErrUnreachable, said)
		}
		pending, err = strconv.ParseUint(m.Header.Get("Nats-Num-Pending"), 10, 64)
		return pending, err
	case "404": // there is no such message
		return 0, nil
	case "503":
		return 0, ErrUnreachable
	default:
		return 0, fmt.Errorf("the server refuses a direct get: %s %s", status, m.Header.Get("Description"))
	}
}

// last returns the last value of a header: the server puts its own after the values
// that the message was stored with.
func last(h nats.Header, key string) string {
	if v := h[key]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}
