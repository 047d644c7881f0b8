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
	"github.com/streamwright/streamwright/dispatcher/weight"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/lograte"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

const (
	// MaxBatch is the most messages in a batch.
	MaxBatch = 256
	// maxBytes bounds the messages that are read and not yet durable.
	maxBytes = 32 << 20
	// retryAfter is the wait before the stream is read again after a disturbance.
	retryAfter = 200 * time.Millisecond
	// siteBytes is maxBytes for the stream of a site.
	siteBytes = 8 << 20
	// siteRetryAfter is the wait before a site that is not connected is looked for again.
	siteRetryAfter = time.Second
)

// Config configures a Reader.
type Config struct {
	// Site, if set, names the site whose stream is read, in place of the intake stream.
	Site     string
	Topology *natsio.Topology
	Names    wire.Names
	Logger   *slog.Logger
	NewID    func() events.ID
	// Ask prepares submissions that arrived together for their decision: it scores them and
	// asks the dedup hook. It returns those that the hook was asked about.
	Ask func(context.Context, []*core.Submit) *dedup.Group
	// Take is called with each batch. It returns false if ctx ended before the batch was
	// taken.
	Take func(context.Context, *Batch) bool
	// Read is called with the sequence of each message read of the intake stream.
	Read func(seq uint64)
}

// Reader follows the intake stream during one ownership of the partition.
type Reader struct {
	cfg    Config
	budget *semaphore.Weighted // maxBytes
	after  uint64              // last message handed over

	wake chan struct{}
	mu   sync.Mutex // guards buf
	buf  []*Message
}

// NewReader returns a Reader that begins after a message of the stream.
func NewReader(cfg Config, after uint64) *Reader {
	most := int64(maxBytes)
	if cfg.Site != "" {
		most = siteBytes
	}
	return &Reader{cfg: cfg, budget: semaphore.NewWeighted(most), after: after, wake: make(chan struct{}, 1)}
}

// Run follows the stream until ctx ends, and starts again whenever the stream was
// disturbed.
func (r *Reader) Run(ctx context.Context) {
	if r.cfg.Site != "" {
		r.runSite(ctx)
		return
	}
	trouble := lograte.NewTrouble(r.cfg.Logger, "intake")
	defer trouble.Stop()
	for ctx.Err() == nil {
		err := r.cfg.Topology.EnsureIntake(ctx)
		if err == nil {
			err = r.read(ctx)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		trouble.Failed(err)
		sleep.For(ctx, retryAfter)
		if err := r.cfg.Topology.EnsureStreams(ctx); err != nil && ctx.Err() == nil {
			trouble.Failed(err)
		}
	}
}

// runSite follows the stream of a site for as long as the site is connected, and looks for
// it again when it is not. That it is away is no fault.
func (r *Reader) runSite(ctx context.Context) {
	for ctx.Err() == nil {
		if err := r.read(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Logger.Debug("a site's stream can't be read", "site", r.cfg.Site, "error", err)
			sleep.For(ctx, siteRetryAfter)
		}
	}
}

func (r *Reader) open(ctx context.Context) (*connect.Feed, error) {
	if r.cfg.Site != "" {
		return r.cfg.Topology.OpenSite(ctx, r.cfg.Site, r.after)
	}
	return r.cfg.Topology.OpenIntake(ctx, r.after)
}

// read runs until ctx ends (nil) or the stream can't be read any more.
func (r *Reader) read(ctx context.Context) error {
	f, err := r.open(ctx)
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
	if err != nil && !r.handOn(ctx) { // the stream may be gone, and this the only copy
		err = nil
	}
	r.release(r.buf) // no longer written: follow has ended
	r.buf = nil
	return err
}

// follow takes messages until ctx ends or the feed does.
func (r *Reader) follow(ctx context.Context, f *connect.Feed) error {
	for last := r.after; ; {
		m, err := f.Next(ctx)
		if err == nil && m.Seq != last+1 && r.cfg.Site == "" {
			err = r.cfg.Topology.IntakeWhole(ctx, last, m.Seq)
		}
		if err == nil {
			last, err = m.Seq, r.add(ctx, m)
		}
		if err != nil {
			return err
		}
	}
}

// handOver hands over in batches what was read.
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

// handOn hands over what has been read, and reports false if ctx has ended.
func (r *Reader) handOn(ctx context.Context) bool {
	for b := r.next(); len(b.Messages) > 0; b = r.next() {
		var subs []*core.Submit
		for _, m := range b.Messages {
			if m.Err == nil {
				subs = append(subs, &m.Submit)
			}
		}
		b.Asked = r.cfg.Ask(ctx, subs)
		if ctx.Err() != nil || !r.cfg.Take(ctx, b) { // Ask may have been cut short
			b.End()
			return false
		}
		r.after = b.Messages[len(b.Messages)-1].Seq
	}
	return true
}

// add parses and buffers a message. It waits for the message's share of the budget, and so
// makes the server wait.
func (r *Reader) add(ctx context.Context, m connect.Message) error {
	weight := int64(weight.Overhead + len(m.Data) + weight.Headers(m.Header))
	if err := r.budget.Acquire(ctx, weight); err != nil {
		return err
	}
	msg := &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}
	var in *Message
	if r.cfg.Site != "" {
		in = ParseSite(r.cfg.Site, m.Seq, msg, r.cfg.Names, r.cfg.NewID())
	} else {
		in = Parse(m.Seq, m.Time, msg, r.cfg.Names, r.cfg.NewID())
	}
	in.weight = weight
	r.mu.Lock()
	r.buf = append(r.buf, in)
	r.mu.Unlock()
	if r.cfg.Site == "" {
		r.cfg.Read(m.Seq)
	}
	nudge.Send(r.wake)
	return nil
}

// next takes the messages of the next batch; it may be empty.
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

// release gives back the shares of the budget that messages hold.
func (r *Reader) release(msgs []*Message) {
	n := int64(0)
	for _, m := range msgs {
		n += m.weight
	}
	r.budget.Release(n)
}
