package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/directget"
	"github.com/streamwright/streamwright/internal/lograte"
	"github.com/streamwright/streamwright/internal/sleep"
)

// JetStream is a Log on a JetStream stream.
type JetStream struct {
	cfg        Config
	stream     string
	replicated bool
	readOnly   bool          // it is a mirror
	stop       chan struct{} // closed by Close
	strange    *lograte.Limiter
	led        atomic.Int64 // see streamInfo.led: of the leader that has last said where the log ends

	// appending serialises Append and Reset; it guards the fields behind it.
	appending sync.Mutex
	enc       *encoder

	mu     sync.Mutex // guards the fields behind it
	sess   *session   // nil: no Append until Reset
	reader *nats.Conn // nil until used
	closed bool
}

var _ Log = (*JetStream)(nil)

// Open opens the log, and creates its stream if there is none (but see
// [Config.Existing]). An existing stream whose settings would lose events is
// refused, and so is one that is being salvaged ([ErrUnfinished]).
func Open(ctx context.Context, cfg Config) (*JetStream, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	l := newJetStream(cfg.WithDefaults())
	if err := l.open(ctx, false); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

func newJetStream(cfg Config) *JetStream {
	return &JetStream{
		cfg: cfg, stream: cfg.Names.EventStream(cfg.Partition), stop: make(chan struct{}),
		strange: lograte.New(maxForeignLines, func(left int) {
			cfg.Logger.Warn("skipped more foreign messages in the event log", "partition", cfg.Partition, "left_out", left)
		}),
	}
}

// maxForeignLines bounds the log's lines about foreign messages, a second.
const maxForeignLines = 5

// foreign tells of a message that is skipped.
func (l *JetStream) foreign(seq uint64, reason string) {
	if l.strange.Allow() {
		l.cfg.Logger.Warn("skipped a foreign message in the event log", "partition", l.cfg.Partition, "seq", seq, "reason", reason)
	}
	if l.cfg.OnForeign != nil {
		l.cfg.OnForeign(seq, reason)
	}
}

// open opens the log; unfinished says that it is being made.
func (l *JetStream) open(ctx context.Context, unfinished bool) error {
	js, err := l.js()
	if err != nil {
		return err
	}
	replicas, err := ensureStream(ctx, js, l.cfg, unfinished)
	if err != nil {
		return err
	}
	l.replicated = replicas > 1
	l.enc = newEncoder(l.cfg.Names, l.cfg.Partition, l.cfg.Turns.Turn())
	return l.Reset(ctx)
}

// Reset implements Log.
func (l *JetStream) Reset(ctx context.Context) error {
	l.abandon()
	l.appending.Lock()
	defer l.appending.Unlock()
	if err := ctx.Err(); err != nil || l.readOnly {
		return err
	}
	s, err := newSession(l.cfg.Connect, l.stop)
	if err != nil {
		return fmt.Errorf("reset the append connection: %w: %w", ErrUnreachable, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		s.close()
		return ErrClosed
	}
	l.sess = s
	return nil
}

// abandon ends the session, so that every Append fails until Reset.
func (l *JetStream) abandon() {
	l.mu.Lock()
	s := l.sess
	l.sess = nil
	l.mu.Unlock()
	if s != nil {
		s.close()
	}
}

func (l *JetStream) session() (*session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, ErrClosed
	case l.sess == nil:
		return nil, errUnsettled
	}
	return l.sess, nil
}

// conn is the connection for everything but appends, dialled when needed.
func (l *JetStream) conn() (*nats.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	if l.reader != nil && !l.reader.IsClosed() {
		return l.reader, nil
	}
	nc, err := l.cfg.Connect()
	if err != nil {
		return nil, fmt.Errorf("connect to read the event log: %w: %w", ErrUnreachable, err)
	}
	l.reader = nc
	return nc, nil
}

func (l *JetStream) js() (jetstream.JetStream, error) {
	nc, err := l.conn()
	if err != nil {
		return nil, err
	}
	return connect.JetStream(nc, l.cfg.Names)
}

// Checksum implements Log. Its answer comes from the stream's leader.
func (l *JetStream) Checksum(ctx context.Context, seq uint64) (uint64, error) {
	m, err := l.get(ctx, seq)
	if err != nil {
		return 0, err
	}
	return events.Checksum(m.Data), nil
}

// codeNoStream is the server's error for a stream that is not there.
const codeNoStream = 10059

// get fetches one message from the stream's leader. ErrTrimmed or ErrBehind:
// it is not there.
func (l *JetStream) get(ctx context.Context, seq uint64) (Stored, error) {
	m, err := l.getOnce(ctx, seq)
	if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return m, err
	}
	tip, err := l.reached(ctx, seq)
	if err == nil {
		err = tip.Check(seq, seq)
	}
	if err != nil {
		return Stored{}, err
	}
	// It has come meanwhile, or has been deleted.
	m, err = l.getOnce(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		err = &CorruptError{Frame: seq, Reason: "it has been deleted"}
	}
	return m, err
}

func (l *JetStream) getOnce(ctx context.Context, seq uint64) (Stored, error) {
	nc, err := l.conn()
	if err != nil {
		return Stored{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.AckTimeout)
	defer cancel()
	m, err := directget.FromLeader(ctx, nc, l.cfg.Names.JetStream("STREAM.MSG.GET."+l.stream), directget.Request{Seq: seq})
	if err != nil {
		return Stored{}, fmt.Errorf("read frame %d: %w", seq, unreachable(err))
	}
	return Stored{Seq: seq, Header: m.Header, Data: m.Data}, nil
}

// unreachable makes an error of package directget one of this package.
func unreachable(err error) error {
	if errors.Is(err, directget.ErrUnreachable) {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// apiAway is the time for which the JetStream API may be served by nobody: while the server
// reads its accounts again, which takes milliseconds to a second.
const apiAway = 2 * time.Second

// request asks the JetStream API.
func (l *JetStream) request(ctx context.Context, subject string, req []byte, resp any) error {
	nc, err := l.conn()
	if err != nil {
		return err
	}
	m, err := nc.RequestWithContext(ctx, subject, req)
	for begun, wait := time.Now(), RetryMin; errors.Is(err, nats.ErrNoResponders) && time.Since(begun) < apiAway && sleep.Longer(ctx, &wait, RetryMax) == nil; {
		m, err = nc.RequestWithContext(ctx, subject, req)
	}
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return err
		}
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if err := json.Unmarshal(m.Data, resp); err != nil {
		return unreadable(subject, err)
	}
	return nil
}

// Close implements Log.
func (l *JetStream) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.stop)
	l.strange.Flush()
	s, r := l.sess, l.reader
	l.sess, l.reader = nil, nil
	l.mu.Unlock()
	if s != nil {
		s.close()
	}
	if r != nil {
		r.Close()
	}
	return nil
}
