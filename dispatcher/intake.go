package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/events"
)

// retryIntake is the wait before the intake is read again after a disturbance.
const retryIntake = 200 * time.Millisecond

// intakeReader follows the intake stream from where the log left off. It needs
// no acks: the events say which messages have been answered. It reads ahead by
// a bounded number of bytes; when the loop takes none, it stops.
type intakeReader struct {
	cfg    *Config
	newID  func() events.ID
	out    chan<- job
	budget *semaphore.Weighted // maxIntakeBytes, for all readers of an ownership
	judge  *judge              // nil: nobody is asked
	after  uint64              // the last message handed to out
	last   *atomic.Uint64      // told of the last message read

	wake chan struct{}
	mu   sync.Mutex // guards buf
	buf  []*intakeMsg
}

// readIntake follows the intake stream, and again when that was disturbed.
func (e *Engine) readIntake(ctx context.Context, l *loop, after uint64) {
	budget := semaphore.NewWeighted(maxIntakeBytes)
	for ctx.Err() == nil {
		r := &intakeReader{cfg: &e.cfg, newID: e.NewID, out: l.intake, budget: budget, judge: e.judge, after: after, last: &e.read, wake: make(chan struct{}, 1)}
		err := r.read(ctx, e.topology)
		if after = r.after; err == nil || ctx.Err() != nil {
			return
		}
		e.cfg.Logger.Warn("intake: starting again", "error", err)
		pause(ctx, retryIntake)
		if err := e.topology.EnsureStreams(ctx); err != nil && ctx.Err() == nil {
			e.cfg.Logger.Warn("intake: the streams could not be made", "error", err)
		}
	}
}

// read runs until ctx ends (nil) or the stream can't be read any more.
func (r *intakeReader) read(ctx context.Context, t *natsio.Topology) error {
	f, err := t.OpenIntake(ctx, r.after)
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
	for _, m := range r.buf { // no longer written: follow has ended
		r.budget.Release(m.weight)
	}
	return err
}

// follow takes messages until ctx ends or the feed does.
func (r *intakeReader) follow(ctx context.Context, f *connect.Feed) error {
	for {
		m, err := f.Next(ctx)
		if err == nil {
			err = r.take(ctx, m)
		}
		if err != nil {
			return err
		}
	}
}

// handOver gives the loop what was read, in batches.
func (r *intakeReader) handOver(ctx context.Context, ended <-chan struct{}) error {
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

// handOn gives the loop what is there, and reports false when ctx has ended.
func (r *intakeReader) handOn(ctx context.Context) bool {
	for batch := r.grab(); len(batch) > 0; batch = r.grab() {
		j := &intakeJob{msgs: batch, budget: r.budget, asked: r.judgeAll(ctx, batch)}
		if ctx.Err() != nil { // it may have been judged in a hurry
			j.abandon(nil)
			return false
		}
		select {
		case r.out <- j:
			r.after = batch[len(batch)-1].seq
		case <-ctx.Done():
			j.abandon(nil)
			return false
		}
	}
	return true
}

// take parses a message. It waits for its part of the budget, and the server
// with it.
func (r *intakeReader) take(ctx context.Context, m connect.Message) error {
	weight := int64(overhead + len(m.Data) + headerBytes(m.Header))
	if err := r.budget.Acquire(ctx, weight); err != nil {
		return err
	}
	in := parseIntake(m.Seq, m.Time, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}, r.cfg, r.newID())
	in.weight = weight
	r.mu.Lock()
	r.buf = append(r.buf, in)
	r.mu.Unlock()
	r.last.Store(max(r.last.Load(), m.Seq)) // one reader at a time
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return nil
}

// grab takes the next batch that waits for the loop.
func (r *intakeReader) grab() []*intakeMsg {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.buf), maxIntakeBatch)
	batch := r.buf[:n:n]
	if r.buf = r.buf[n:]; len(r.buf) == 0 {
		r.buf = nil
	}
	return batch
}
