// Package directget reads messages of a stream by batched direct gets: one
// request that the server answers with a message each, without a consumer. The
// engine alone does so: a client's account has no such request to make.
package directget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Timeout bounds the wait for one message of an answer.
const Timeout = 5 * time.Second

// ErrUnreachable means that no server answered: try again.
var ErrUnreachable = errors.New("the stream does not answer")

// Request asks for the messages from a sequence or a time on.
type Request struct {
	Seq       uint64     `json:"seq,omitempty"`
	StartTime *time.Time `json:"start_time,omitempty"`
	NextFor   string     `json:"next_by_subj,omitempty"` // only on subjects that match
	Batch     int        `json:"batch"`                  // messages, at least 1
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

// Get sends a request to the direct get subject of a stream. pending is how many
// messages that match are left behind those returned. None at all is no error.
func Get(ctx context.Context, nc *nats.Conn, subject string, req Request) (msgs []Message, pending uint64, err error) {
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

// last is the last value of a header: the server puts its own behind those that
// the message was stored with.
func last(h nats.Header, key string) string {
	if v := h[key]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}
