package natsio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/lograte"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/wire"
)

// AckReader follows the stream that captures the answers of the workers of ack types and
// the server's words on them. It begins early enough for everything that is dispatched, so
// that it also hears what was said while no engine was running.
type AckReader struct {
	signals  *Signals
	topology *Topology
	stream   string
	since    time.Time
}

// NewAckReader makes the reader of an ownership, for words from since on.
func NewAckReader(t *Topology, sig *Signals, since time.Time) *AckReader {
	t.acks.behind.Store(true)
	return &AckReader{signals: sig, topology: t, stream: t.cfg.Names.DispatchAckStream(), since: since}
}

// caughtUp notes that everything is heard that was there when the reader began.
func (r *AckReader) caughtUp() {
	if r.topology.acks.behind.Swap(false) {
		r.signals.AcksHeard()
	}
}

// Read runs until ctx ends. It sleeps until there is a type with the protocol.
func (r *AckReader) Read(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-r.topology.acks.ready:
	}
	trouble := lograte.NewTrouble(r.topology.log, "words of ack types")
	defer trouble.Stop()
	for {
		err := r.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		trouble.Failed(err, "stream", r.stream)
		if !pauseFor(ctx) {
			return
		}
		if _, err := r.topology.EnsureAckStreams(ctx); err != nil && ctx.Err() == nil {
			trouble.Failed(err, "stream", r.stream)
		}
		r.signals.SweepNow()
	}
}

// retryRead is the wait before a stream that could not be read is read again.
const retryRead = 200 * time.Millisecond

// pauseFor waits for retryRead, and reports false when ctx ended first.
func pauseFor(ctx context.Context) bool {
	t := time.NewTimer(retryRead)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (r *AckReader) follow(ctx context.Context) error {
	gone := make(chan struct{}, 1)
	sub, err := r.topology.js.Conn().Subscribe("$JS.EVENT.ADVISORY.STREAM.DELETED."+r.stream, func(*nats.Msg) {
		nudge.Send(gone)
	})
	if err != nil {
		return fmt.Errorf("follow %s: %w", r.stream, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	f, err := connect.OpenFeed(ctx, r.topology.js, r.topology.cfg.Names, connect.FeedConfig{Stream: r.stream, Since: r.since})
	if err != nil {
		return fmt.Errorf("follow %s: %w", r.stream, err)
	}
	defer f.Close()
	if f.Pending() == 0 {
		r.caughtUp()
	}
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-gone:
			cancel(errors.New("it was deleted"))
		case <-stop:
		}
	}()
	defer func() { close(stop); <-watched }()
	for {
		m, err := f.Next(reading)
		if err != nil {
			if reading.Err() != nil {
				err = context.Cause(reading)
			}
			return fmt.Errorf("follow %s: %w", r.stream, err)
		}
		r.hear(reading, m)
	}
}

// hear leaves a word for the loop, once there is room: none may be dropped, so hear waits,
// and the stream holds the rest.
func (r *AckReader) hear(ctx context.Context, m connect.Message) {
	if m.Pending == 0 {
		defer r.caughtUp()
	}
	w, ok := ackWordOf(m.Subject, m.Data, r.topology.cfg.Names.DispatchStream())
	if !ok {
		return
	}
	select {
	case r.signals.WordRoom <- struct{}{}:
		r.signals.AckSignal(w)
	case <-ctx.Done():
	}
}

// messageDeleted is the reason that the server gives for a message that was deleted while a
// worker had it.
const messageDeleted = "Unacknowledged message was deleted"

// ackWordOf parses a captured message.
func ackWordOf(subject string, data []byte, stream string) (ackmode.Word, bool) {
	if rest, ok := strings.CutPrefix(subject, "$JS.ACK."+stream+"."); ok {
		return rawWord(rest, data)
	}
	var a struct {
		Type      string `json:"type"`
		Stream    string `json:"stream"`
		Consumer  string `json:"consumer"`
		StreamSeq uint64 `json:"stream_seq"`
		AckTime   int64  `json:"ack_time"`
		Reason    string `json:"reason"`
	}
	if err := json.Unmarshal(data, &a); err != nil || a.Stream != stream || a.StreamSeq == 0 {
		return ackmode.Word{}, false
	}
	w := ackmode.Word{Seq: a.StreamSeq, Type: events.Type(a.Consumer)}
	switch {
	case strings.Contains(subject, ".METRIC.CONSUMER.ACK."):
		w.Kind, w.Took = core.AckDone, time.Duration(a.AckTime)
	case strings.Contains(subject, ".MSG_NAKED."):
		w.Kind = core.AckNak
	case strings.Contains(subject, ".MAX_DELIVERIES."):
		w.Kind = core.AckExpired
	case strings.Contains(subject, ".MSG_TERMINATED."):
		w.Kind, w.Reason = core.AckTerm, a.Reason
		if a.Reason == messageDeleted {
			w.Kind, w.Reason = core.AckExpired, "" // the worker can answer no more
		}
	default:
		return ackmode.Word{}, false
	}
	return w, true
}

// rawWord parses an ack as its worker sent it: see the server's processAck. rest is the
// subject from the consumer on: consumer, deliveries, stream sequence, consumer sequence,
// time, pending.
func rawWord(rest string, data []byte) (ackmode.Word, bool) {
	tokens := strings.Split(rest, ".")
	if len(tokens) < 4 {
		return ackmode.Word{}, false
	}
	seq, err := strconv.ParseUint(tokens[2], 10, 64)
	if err != nil || seq == 0 {
		return ackmode.Word{}, false
	}
	w := ackmode.Word{Seq: seq, Type: events.Type(tokens[0]), Raw: true}
	switch {
	case len(data) == 0, bytes.Equal(data, []byte("+ACK")), bytes.Equal(data, []byte("+OK")), bytes.HasPrefix(data, []byte("+NXT")):
		w.Kind = core.AckDone
	case bytes.Equal(data, []byte("+WPI")):
		w.Kind = core.AckSeen
	case bytes.HasPrefix(data, []byte("-NAK")):
		w.Kind, w.Delay = core.AckNak, nakDelay(data[len("-NAK"):])
	case bytes.HasPrefix(data, []byte("+TERM")):
		w.Kind, w.Reason = core.AckTerm, string(bytes.TrimSpace(data[len("+TERM"):]))
	default:
		return ackmode.Word{}, false
	}
	return w, true
}

// nakDelay parses the delay of a -NAK: a JSON object with nanoseconds, or a Go duration. It
// returns 0 for none, and for one that the server doesn't understand either.
func nakDelay(arg []byte) time.Duration {
	arg = bytes.TrimSpace(arg)
	if len(arg) == 0 {
		return 0
	}
	if arg[0] == '{' {
		var o struct {
			Delay time.Duration `json:"delay"`
		}
		if json.Unmarshal(arg, &o) != nil {
			return 0
		}
		return max(o.Delay, 0)
	}
	d, err := time.ParseDuration(string(arg))
	if err != nil {
		return 0
	}
	return max(d, 0)
}

// AckMsg is a message found in the dispatch stream.
type AckMsg struct {
	Seq   uint64
	At    time.Time
	ID    events.ID
	Token events.Token
	Lease time.Duration // as its worker was told
}

// scanAcks reads the headers of the dispatch stream's messages, in order.
func scanAcks(ctx context.Context, nc *nats.Conn, s jetstream.Stream, names wire.Names) (msgs []AckMsg, err error) {
	err = scanStream(ctx, nc, s, names, names.AckRun("*"), func(seq uint64, h nats.Header) error {
		stamps := h["Nats-Time-Stamp"] // the server's is the last
		if len(stamps) == 0 {
			return fmt.Errorf("message %d has no time", seq)
		}
		at, err := time.Parse(time.RFC3339Nano, stamps[len(stamps)-1])
		if err != nil {
			return fmt.Errorf("message %d: %w", seq, err)
		}
		id, token, _ := dispatchedBy(h)
		msgs = append(msgs, AckMsg{seq, at, id, token, leaseTold(h)})
		return nil
	})
	return msgs, err
}
