package intake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher/dedup"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

const (
	// MaxBatch is how many messages a batch has at most.
	MaxBatch = 256
	// maxBytes bounds the messages that are read and not durable yet.
	maxBytes = 32 << 20
	// overhead is what a message costs beside its bytes, roughly.
	overhead = 512
	// retryAfter is the wait before the stream is read again after a disturbance.
	retryAfter = 200 * time.Millisecond
)

// Config says what a Reader reads, and for whom.
type Config struct {
	Topology *natsio.Topology
	Names    wire.Names
	Logger   *slog.Logger
	NewID    func() events.ID
	// Ask has submissions that have arrived together prepared for their decision:
	// scored, and asked about. It returns those that the dedup hook was asked about.
	Ask func(context.Context, []*core.Submit) *dedup.Group
	// Take is handed each batch. It returns false if ctx ended before it was taken.
	Take func(context.Context, *Batch) bool
	// Read is told of the last message read.
	Read func(seq uint64)
}

// Reader follows the intake stream during one ownership of the partition.
type Reader struct {
	cfg    Config
	budget *semaphore.Weighted // maxBytes
	after  uint64              // the last message handed over

	wake chan struct{}
	mu   sync.Mutex // guards buf
	buf  []*Message
}

// NewReader makes a Reader that begins behind a message of the stream.
func NewReader(cfg Config, after uint64) *Reader {
	return &Reader{cfg: cfg, budget: semaphore.NewWeighted(maxBytes), after: after, wake: make(chan struct{}, 1)}
}

// Run follows the stream until ctx ends, and again when that was disturbed.
func (r *Reader) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.read(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		r.cfg.Logger.Warn("intake: starting again", "error", err)
		sleep.For(ctx, retryAfter)
		if err := r.cfg.Topology.EnsureStreams(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Logger.Warn("intake: the streams could not be made", "error", err)
		}
	}
}

// read runs until ctx ends (nil) or the stream can't be read any more.
func (r *Reader) read(ctx context.Context) error {
	f, err := r.cfg.Topology.OpenIntake(ctx, r.after)
	if err != nil {
		return fmt.Errorf("read intake: %w", err)
	}
	defer f.Close()
	reading, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	var lost error
	go func() {
		defer close(ended)
		lost = r.follow(reading, f)
	}()
	if err = r.handOver(ctx, ended); err != nil {
		<-ended
		err = fmt.Errorf("%w: %w", err, lost)
	}
	cancel()
	<-ended
	if err != nil && !r.handOn(ctx) { // the stream may be gone: this is the only copy
		err = nil
	}
	r.release(r.buf) // no longer written: follow has ended
	r.buf = nil
	return err
}

// follow takes messages until ctx ends or the feed does.
func (r *Reader) follow(ctx context.Context, f *connect.Feed) error {
	for {
		m, err := f.Next(ctx)
		if err == nil {
			err = r.add(ctx, m)
		}
		if err != nil {
			return err
		}
	}
}

// handOver hands over what was read, in batches.
func (r *Reader) handOver(ctx context.Context, ended <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			return errors.New("read intake: the feed has ended")
		case <-r.wake:
		}
		if !r.handOn(ctx) {
			return nil
		}
	}
}

// handOn hands over what is there, and reports false when ctx has ended.
func (r *Reader) handOn(ctx context.Context) bool {
	for b := r.next(); len(b.Messages) > 0; b = r.next() {
		var subs []*core.Submit
		for _, m := range b.Messages {
			if m.Err == nil {
				subs = append(subs, &m.Submit)
			}
		}
		b.Asked = r.cfg.Ask(ctx, subs)
		if ctx.Err() != nil || !r.cfg.Take(ctx, b) { // it may have been asked about in a hurry
			b.End()
			return false
		}
		r.after = b.Messages[len(b.Messages)-1].Seq
	}
	return true
}

// add parses a message. It waits for its part of the budget, and the server with
// it.
func (r *Reader) add(ctx context.Context, m connect.Message) error {
	weight := int64(overhead + len(m.Data) + HeaderBytes(m.Header))
	if err := r.budget.Acquire(ctx, weight); err != nil {
		return err
	}
	in := Parse(m.Seq, m.Time, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}, r.cfg.Names, r.cfg.NewID())
	in.weight = weight
	r.mu.Lock()
	r.buf = append(r.buf, in)
	r.mu.Unlock()
	r.cfg.Read(m.Seq)
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return nil
}

// next takes the messages of the next batch, if there are any.
func (r *Reader) next() *Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.buf), MaxBatch)
	b := &Batch{Messages: r.buf[:n:n], release: r.release}
	if r.buf = r.buf[n:]; len(r.buf) == 0 {
		r.buf = nil
	}
	return b
}

// release gives back the parts of the budget that messages have.
func (r *Reader) release(msgs []*Message) {
	n := int64(0)
	for _, m := range msgs {
		n += m.weight
	}
	r.budget.Release(n)
}

// HeaderBytes returns how long a message's headers are: a publisher may send long ones
// that mean nothing here.
func HeaderBytes(h map[string][]string) (n int) {
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return n
}
