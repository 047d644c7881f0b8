package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/repeat"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

const (
	// OutputEvery is the least time between two chunks of output, unless there is much.
	OutputEvery = 50 * time.Millisecond
	// outputMuch is sent at once, in bytes.
	outputMuch = 16 << 10
	// outputBuffer bounds what is written and not sent, in bytes. Then Write waits.
	outputBuffer = 64 << 10
	// outputGrace bounds the sending of what is left when the run's context has ended.
	outputGrace = time.Second
	// FailOutput is the code of a run whose output could not be stored.
	FailOutput = "output_failed"
)

// ErrOutputFull is returned for output beyond the engine's bound for an item, which is
// dropped. What was written before stays, marked as cut; the run may go on.
var ErrOutputFull = errors.New("the item's output is full: what is beyond output_item_size is dropped")

// errOutputClosed is returned once the run has ended.
var errOutputClosed = errors.New("the run has ended, and its output with it")

// OutputSummary says what has become of an output.
type OutputSummary = wire.OutputSummary

// Output writes an item's output, which anyone can follow while the run lasts. What a run
// writes takes the place of what an earlier one has written. It is not best effort: bytes
// are sent in order, each once, and all of them before the run's outcome; a run whose output
// can't be stored fails. Small writes are sent together, after [OutputEvery] at the latest.
//
// Write waits while 64 KiB are on their way, up to the end of the run's context, whose cause
// it then returns. It is safe for concurrent use.
type Output struct {
	ctx  context.Context // the run's
	send func(ctx context.Context, offset int, chunk []byte) (OutputSummary, error)
	done chan struct{} // closed when the sender has ended

	mu       sync.Mutex
	changed  *sync.Cond
	buf      []byte    // written, and not handed to send
	begun    bool      // there is a sender
	reset    bool      // an earlier run may have written something: it is void
	sending  bool      // a chunk is on its way
	flushing int       // callers that wait until all is sent
	closed   bool      // nothing more is written
	next     time.Time // the earliest time for the next chunk, if there is not much
	timer    *time.Timer
	err      error // why nothing more is sent
	sum      OutputSummary
}

// newOutput makes the output of a run.
func newOutput(ctx context.Context, item *RawItem) *Output {
	o := &Output{ctx: ctx, send: item.OnOutput, done: make(chan struct{}), reset: item.Attempt > 1}
	if o.send == nil {
		o.send = func(_ context.Context, offset int, chunk []byte) (OutputSummary, error) {
			return OutputSummary{Bytes: offset + len(chunk)}, nil
		}
	}
	o.changed = sync.NewCond(&o.mu)
	return o
}

// Output returns the writer of the item's output. Outside of a run it drops what is written.
func (it *RawItem) Output() *Output {
	if it.output == nil {
		return newOutput(context.Background(), &RawItem{})
	}
	it.output.mu.Lock()
	defer it.output.mu.Unlock()
	if it.output.reset {
		it.output.begin()
	}
	return it.output
}

// begin starts the sender. REQUIRES: mu.
func (o *Output) begin() {
	if !o.begun && !o.closed {
		o.begun = true
		go o.run()
	}
}

// Write implements [io.Writer].
func (o *Output) Write(p []byte) (n int, err error) {
	defer context.AfterFunc(o.ctx, o.wake)()
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(p) > 0 {
		for o.refuses() == nil && len(o.buf) >= outputBuffer {
			o.changed.Wait()
		}
		if err := o.refuses(); err != nil {
			return n, err
		}
		k := min(len(p), outputBuffer-len(o.buf))
		o.buf = append(o.buf, p[:k]...)
		n, p = n+k, p[k:]
		o.begin()
		o.changed.Broadcast()
	}
	return n, nil
}

// WriteString implements [io.StringWriter].
func (o *Output) WriteString(s string) (int, error) { return o.Write([]byte(s)) }

// refuses returns why nothing can be written now. REQUIRES: mu.
func (o *Output) refuses() error {
	if o.closed {
		return errOutputClosed
	}
	return cmp.Or(o.err, context.Cause(o.ctx))
}

// Flush returns nil once all that was written is stored.
func (o *Output) Flush() error {
	defer context.AfterFunc(o.ctx, o.wake)()
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.flush()
}

// flush is Flush. REQUIRES: mu.
func (o *Output) flush() error {
	o.flushing++
	defer func() { o.flushing-- }()
	o.changed.Broadcast()
	for o.err == nil && o.pending() {
		if o.ctx.Err() != nil && !o.closed {
			return context.Cause(o.ctx)
		}
		o.changed.Wait()
	}
	return o.err
}

// pending reports whether something is not stored. REQUIRES: mu.
func (o *Output) pending() bool { return o.begun && (o.reset || o.sending || len(o.buf) > 0) }

// Summary returns how much of the output is stored so far.
func (o *Output) Summary() OutputSummary {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sum
}

func (o *Output) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed.Broadcast()
}

// close sends what is left, and ends the sender. Output that was cut is no error.
func (o *Output) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if !o.begun {
		return nil
	}
	err := o.flush()
	o.changed.Broadcast()
	o.mu.Unlock()
	<-o.done
	o.mu.Lock()
	if errors.Is(err, ErrOutputFull) {
		return nil
	}
	return err
}

// run sends chunks until the output is closed, or can't be sent.
func (o *Output) run() {
	defer close(o.done)
	o.mu.Lock()
	defer o.mu.Unlock()
	defer func() {
		if o.timer != nil {
			o.timer.Stop()
		}
	}()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(o.ctx))
	defer cancel(nil)
	defer context.AfterFunc(o.ctx, func() {
		time.AfterFunc(outputGrace, func() { cancel(context.Cause(o.ctx)) })
	})()
	for o.err == nil {
		n := o.sendable()
		if n == 0 && !o.reset {
			if o.closed && len(o.buf) == 0 {
				return
			}
			o.changed.Wait()
			continue
		}
		o.sendOne(ctx, n)
	}
}

// sendOne sends n bytes. REQUIRES: mu.
func (o *Output) sendOne(ctx context.Context, n int) {
	chunk := append([]byte(nil), o.buf[:n]...)
	o.buf = o.buf[:copy(o.buf, o.buf[n:])]
	o.sending, o.reset, o.next = true, false, time.Now().Add(OutputEvery)
	offset := o.sum.Bytes
	o.mu.Unlock()
	sum, err := o.send(ctx, offset, chunk)
	o.mu.Lock()
	o.sending = false
	if err == nil {
		o.sum = sum
		if sum.Cut {
			err = ErrOutputFull
		}
	}
	if o.err = err; err != nil {
		o.buf = nil
	}
	o.changed.Broadcast()
}

// sendable returns how many bytes are to be sent now. It leaves the beginning of a character
// whose end is not written yet, and sees to it that the sender wakes when it is time.
// REQUIRES: mu.
func (o *Output) sendable() int {
	n := min(len(o.buf), wire.MaxOutputChunk)
	if n == 0 || (o.closed || o.flushing > 0) && n == len(o.buf) {
		return n
	}
	if n -= partial(o.buf[:n]); n >= outputMuch || o.closed || o.flushing > 0 {
		return n
	}
	wait := time.Until(o.next)
	if n == 0 || wait <= 0 {
		return n
	}
	if o.timer == nil {
		o.timer = time.AfterFunc(wait, o.wake)
	} else {
		o.timer.Reset(wait)
	}
	return 0
}

// partial returns the length of the part of a character that b ends with.
func partial(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n:]; utf8.RuneStart(c[0]) {
			if utf8.FullRune(c) {
				return 0
			}
			return n
		}
	}
	return 0
}

// closeOutput ends the output of a run. The run fails if it can't be stored.
func closeOutput(out Outcome, o *Output) Outcome {
	if err := o.close(); err != nil && out.Err == nil {
		err = fmt.Errorf("store the output: %w", err)
		code, retryable, after := verdictOf(err)
		return Outcome{Err: err, Code: cmp.Or(code, FailOutput), Retryable: retryable, RetryAfter: after}
	}
	return out
}

// outputSink sends chunks of an item's output, each again until it is answered.
func (x *runner) outputSink(r *run) func(ctx context.Context, offset int, chunk []byte) (OutputSummary, error) {
	return func(ctx context.Context, offset int, chunk []byte) (sum OutputSummary, err error) {
		req := wire.OutputWrite{ID: r.msg.ID, Token: r.msg.Token, Offset: &offset, OutputBytes: wire.OutputBytesOf(chunk)}
		for tries := 0; ; tries++ {
			err := x.w.link.call(ctx, wire.APIOutputWrite, req, &sum, requestTimeout)
			switch {
			case err == nil:
				return sum, nil
			case events.CodeOf(err) == events.CodeStaleToken:
				return sum, fmt.Errorf("%w: %w", ErrLeaseLost, err)
			case !transient(err):
				return sum, err
			}
			if sleep.For(ctx, (repeat.Backoff{Min: backoffMin, Max: backoffMax}).Wait(tries)) != nil {
				return sum, context.Cause(ctx)
			}
		}
	}
}
