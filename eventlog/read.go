package eventlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
)

// Bounds of one reader.
const (
	pullMessages = 1024    // of one request; at most two are open
	pullBytes    = 4 << 20 // of one request, or what the largest message takes
	readRetries  = 5       // consumers in a row that bring nothing

	// deliveryRoom is more than a delivery has besides a message's header and data.
	deliveryRoom = 4 << 10
)

// Read implements Log. Several may run at once. The frames come from a
// consumer in the server's memory, which on a cluster any server with the
// stream may hold: it delivers only what the replicas have agreed on, and the
// end, which Last has from the leader, is waited for.
func (l *JetStream) Read(ctx context.Context, from, to uint64, fn func(Frame) error) error {
	if from > to {
		return nil
	}
	tip, err := l.reached(ctx, to)
	if err == nil {
		from, err = tip.Range(from, to)
	}
	if err != nil {
		return err
	}
	f := &fetcher{log: l, next: from, to: to, agreed: to}
	return replay(ctx, l.foreign, f.run, fn)
}

// Follow implements Log. The frames come from a consumer, as those of Read do.
func (l *JetStream) Follow(ctx context.Context, from uint64, fn func(Frame) error) error {
	f := &fetcher{log: l, next: max(from, 1), to: math.MaxUint64}
	if tip, err := l.Last(ctx); err == nil {
		f.agreed = tip.Seq
	}
	return replay(ctx, l.foreign, f.run, fn)
}

// fetcher brings the messages from next to to. It belongs to one goroutine.
type fetcher struct {
	log      *JetStream
	next, to uint64
	agreed   uint64 // up to there the replicas have agreed
	lost     bool   // what is in front of next
	p        *pipeline
}

// run puts all messages into the pipeline, taking a new consumer where one
// fails.
func (f *fetcher) run(ctx context.Context, p *pipeline) error {
	f.p = p
	if err := f.near(ctx); err != nil || f.next > f.to {
		return err
	}
	for tries := 0; ; tries++ {
		before := f.next
		err := f.consume(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !errors.Is(err, ErrUnreachable) {
			return err
		}
		if f.next > before {
			tries = 0
		}
		if tries >= readRetries {
			return fmt.Errorf("read the event log at frame %d: %w", f.next, err)
		}
		if err := sleep.For(ctx, time.Duration(tries+1)*50*time.Millisecond); err != nil {
			return err
		}
	}
}

// consume reads with one consumer for as long as it lasts.
func (f *fetcher) consume(ctx context.Context) error {
	js, err := f.log.js()
	if err != nil {
		return err
	}
	feed, err := connect.OpenFeed(ctx, js, f.log.cfg.Names, connect.FeedConfig{
		Stream: f.log.stream, FromSeq: f.next, Messages: int(min(pullMessages-1, f.to-f.next)) + 1,
		Bytes: int(max(pullBytes, js.Conn().MaxPayload()+deliveryRoom)),
	})
	if err == nil {
		defer feed.Close()
	}
	for err == nil && f.next <= f.to {
		var m connect.Message
		if m, err = feed.Next(ctx); err == nil {
			err = f.add(ctx, &m)
		}
	}
	var api *jetstream.APIError
	if errors.Is(err, connect.ErrFeedLost) && (!errors.As(err, &api) || api.Code >= 500) {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// add puts the next message into the pipeline.
func (f *fetcher) add(ctx context.Context, m *connect.Message) error {
	if m.Seq != f.next {
		if err := f.hole(ctx, m.Seq); err != nil {
			return err
		}
	}
	f.next = m.Seq + 1
	lost := f.lost
	f.lost = false
	return f.p.put(ctx, []Stored{{Seq: m.Seq, lost: lost, Header: m.Header, Data: m.Data}})
}

// hole returns why the log does not have the next frame, nil if it may lack it.
func (f *fetcher) hole(ctx context.Context, found uint64) error {
	tip, err := f.log.Last(ctx)
	if err != nil {
		return err
	}
	if f.next < tip.First {
		return &TrimmedError{Asked: f.next, First: tip.First}
	}
	if f.log.readOnly && f.log.cfg.Gaps {
		f.lost = true
		return nil
	}
	// The replica that a consumer reads may lack what the others have: another consumer may read
	// another one.
	if _, err := f.log.get(ctx, f.next); err == nil || !errors.Is(err, events.ErrCorrupt) {
		return fmt.Errorf("%w: a replica goes on with frame %d, and lacks %d", ErrUnreachable, found, f.next)
	}
	return missing(f.next, found)
}
