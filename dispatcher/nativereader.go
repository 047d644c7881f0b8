package dispatcher

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
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// nativeReader follows one of the streams that capture what native workers
// answer and what the server makes of it. It begins early enough for everything that is
// dispatched, so that what was said while no engine was there is heard as well.
type nativeReader struct {
	cfg      *Config
	js       jetstream.JetStream
	signals  *signals
	topology *topology
	stream   string
	since    time.Time
	behind   bool // it counts in nativeTopology.behind
}

// newNativeReaders makes the readers of an ownership.
func newNativeReaders(e *Engine, l *loop) []*nativeReader {
	var rs []*nativeReader
	e.topology.native.behind.Store(0)
	for _, stream := range []string{e.cfg.Names.NativeAckStream(), e.cfg.Names.NativeSignalStream()} {
		r := &nativeReader{cfg: &e.cfg, js: e.js, signals: l.signals, topology: e.topology, stream: stream, since: l.native.since}
		r.setBehind(true)
		rs = append(rs, r)
	}
	return rs
}

func (r *nativeReader) setBehind(behind bool) {
	if behind == r.behind {
		return
	}
	if r.behind = behind; behind {
		r.topology.native.behind.Add(1)
	} else if r.topology.native.behind.Add(-1) == 0 {
		r.signals.nativeHeard()
	}
}

// read runs until ctx ends. It sleeps until there is a type with the protocol.
func (r *nativeReader) read(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-r.topology.native.ready:
	}
	for {
		err := r.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		r.cfg.Logger.Warn("words of native workers: starting again", "stream", r.stream, "error", err)
		if !pause(ctx, retryRead) {
			return
		}
		if _, err := r.topology.ensureNativeStreams(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Logger.Warn("words of native workers: the streams could not be made", "error", err)
		}
		r.signals.sweepNow()
	}
}

func (r *nativeReader) follow(ctx context.Context) error {
	gone := make(chan struct{}, 1)
	sub, err := r.js.Conn().Subscribe("$JS.EVENT.ADVISORY.STREAM.DELETED."+r.stream, func(*nats.Msg) {
		select {
		case gone <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return fmt.Errorf("follow %s: %w", r.stream, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	f, err := connect.OpenFeed(ctx, r.js, r.cfg.Names, connect.FeedConfig{Stream: r.stream, Since: r.since})
	if err != nil {
		return fmt.Errorf("follow %s: %w", r.stream, err)
	}
	defer f.Close()
	r.setBehind(f.Pending() > 0)
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

// hear leaves a word for the loop, once there is room for it: none may be
// dropped, so this waits and the stream holds the rest.
func (r *nativeReader) hear(ctx context.Context, m connect.Message) {
	if r.behind && m.Pending == 0 {
		defer r.setBehind(false)
	}
	w, ok := nativeWordOf(m.Subject, m.Data, r.cfg.Names.NativeStream())
	if !ok {
		return
	}
	select {
	case r.signals.wordRoom <- struct{}{}:
		r.signals.nativeWord(w)
	case <-ctx.Done():
	}
}

// messageDeleted is the reason that the server gives for a message which was
// deleted while a worker had it.
const messageDeleted = "Unacknowledged message was deleted"

// nativeWordOf reads what a captured message says.
func nativeWordOf(subject string, data []byte, stream string) (nativeWord, bool) {
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
		return nativeWord{}, false
	}
	w := nativeWord{seq: a.StreamSeq, typ: events.Type(a.Consumer)}
	switch {
	case strings.Contains(subject, ".METRIC.CONSUMER.ACK."):
		w.kind, w.took = core.NativeAck, time.Duration(a.AckTime)
	case strings.Contains(subject, ".MSG_NAKED."):
		w.kind = core.NativeNak
	case strings.Contains(subject, ".MAX_DELIVERIES."):
		w.kind = core.NativeExpired
	case strings.Contains(subject, ".MSG_TERMINATED."):
		w.kind, w.reason = core.NativeTerm, a.Reason
		if a.Reason == messageDeleted {
			w.kind, w.reason = core.NativeExpired, "" // its worker can answer no more
		}
	default:
		return nativeWord{}, false
	}
	return w, true
}

// rawWord reads an ack as its worker has sent it: see the server's processAck.
// rest is its subject from the consumer on: consumer, deliveries, stream
// sequence, consumer sequence, time, pending.
func rawWord(rest string, data []byte) (nativeWord, bool) {
	tokens := strings.Split(rest, ".")
	if len(tokens) < 4 {
		return nativeWord{}, false
	}
	seq, err := strconv.ParseUint(tokens[2], 10, 64)
	if err != nil || seq == 0 {
		return nativeWord{}, false
	}
	w := nativeWord{seq: seq, typ: events.Type(tokens[0]), raw: true}
	switch {
	case len(data) == 0, bytes.Equal(data, []byte("+ACK")), bytes.Equal(data, []byte("+OK")), bytes.HasPrefix(data, []byte("+NXT")):
		w.kind = core.NativeAck
	case bytes.Equal(data, []byte("+WPI")):
		w.kind = core.NativeSeen
	case bytes.HasPrefix(data, []byte("-NAK")):
		w.kind, w.delay = core.NativeNak, nakDelay(data[len("-NAK"):])
	case bytes.HasPrefix(data, []byte("+TERM")):
		w.kind, w.reason = core.NativeTerm, string(bytes.TrimSpace(data[len("+TERM"):]))
	default:
		return nativeWord{}, false
	}
	return w, true
}

// nakDelay reads the delay of a -NAK: a JSON object with nanoseconds, or a Go
// duration; 0 for none, and for one that the server doesn't understand either.
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
