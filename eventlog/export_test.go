package eventlog

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// What the external tests look at.
const (
	DuplicateWindow = duplicateWindow
	MaxFences       = maxFences
	PipelineBytes   = pipelineBytes
	PullBytes       = pullBytes

	HeaderFrame  = headerFrame
	HeaderEpoch  = headerEpoch
	HeaderLevel  = headerLevel
	HeaderEvents = headerEvents
	HeaderBefore = headerBefore
)

var (
	ErrAckTimeout     = errAckTimeout
	ErrConnectionLost = errConnectionLost
	ErrDeposed        = errDeposed

	PlainAck = plainAck
)

func (l *JetStream) JS() (jetstream.JetStream, error) { return l.js() }

func (l *JetStream) Get(ctx context.Context, seq uint64) (Stored, error) { return l.get(ctx, seq) }

func (l *JetStream) Replicated() bool { return l.replicated }

// Led tells the leadership that the log knows of.
func (l *JetStream) Led() int64 { return l.led.Load() }

// Unanswered waits for the ack of an append that was not sent, as if it had been under led.
func (l *JetStream) Unanswered(ctx context.Context, led int64) error {
	_, err := l.await(ctx, l.sess, l.sess.token(), led)
	return err
}

// AwaitDown waits until the append connection has broken.
func (l *JetStream) AwaitDown() { l.sess.down <- <-l.sess.down }

// NewJetStream makes a log of a stream that is not looked at.
func NewJetStream(cfg Config, replicated bool) *JetStream {
	l := newJetStream(cfg.WithDefaults())
	l.replicated = replicated
	return l
}

func (l *JetStream) Reached(ctx context.Context, seq uint64) (Tip, error) { return l.reached(ctx, seq) }

// Near reads what there is in the files of the server from one sequence to another, and returns
// where it has stopped.
func (l *JetStream) Near(ctx context.Context, from, to uint64, fn func(Frame) error) (next uint64, err error) {
	f := &fetcher{log: l, next: from, to: to, agreed: to}
	err = replay(ctx, l.foreign, func(ctx context.Context, p *pipeline) error {
		f.p = p
		return f.near(ctx)
	}, fn)
	return f.next, err
}
