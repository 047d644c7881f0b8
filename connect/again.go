package connect

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/streamwright/streamwright/internal/sleep"
)

// Bounds of a request to JetStream for a stream.
const (
	answerWithin = 5 * time.Second       // all tries together, unless the caller's context has a deadline
	firstTry     = time.Second           // each later one waits twice as long
	madeElse     = 20 * time.Millisecond // until a stream that another has just made is there to be updated
)

// patient asks again for a stream when nobody answers. Of two that make the same stream in
// a cluster at once, the server answers at most one (2.15.2: the later assignment takes the
// place of the earlier one, with its reply subject), and a stream whose servers are electing
// a leader answers nobody. All that it asks may be asked twice.
type patient struct{ jetstream.JetStream }

func (p patient) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	return again(ctx, func(ctx context.Context) (jetstream.Stream, error) { return p.JetStream.Stream(ctx, name) })
}

func (p patient) CreateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	return again(ctx, func(ctx context.Context) (jetstream.Stream, error) { return p.JetStream.CreateStream(ctx, c) })
}

func (p patient) UpdateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	return again(ctx, func(ctx context.Context) (jetstream.Stream, error) { return p.JetStream.UpdateStream(ctx, c) })
}

// CreateOrUpdateStream updates the stream, and makes it if it is not there. Another node may
// make it in between: then it is updated after all.
func (p patient) CreateOrUpdateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	return again(ctx, func(ctx context.Context) (jetstream.Stream, error) {
		for {
			s, err := p.JetStream.CreateOrUpdateStream(ctx, c)
			if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || sleep.For(ctx, madeElse) != nil {
				return s, err
			}
		}
	})
}

func (p patient) KeyValue(ctx context.Context, bucket string) (jetstream.KeyValue, error) {
	return again(ctx, func(ctx context.Context) (jetstream.KeyValue, error) { return p.JetStream.KeyValue(ctx, bucket) })
}

// again does something until it has an answer.
func again[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	if _, set := ctx.Deadline(); !set {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, answerWithin)
		defer cancel()
	}
	for within := firstTry; ; within *= 2 {
		try, cancel := context.WithTimeout(ctx, within)
		v, err := do(try)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return v, err
		}
	}
}
