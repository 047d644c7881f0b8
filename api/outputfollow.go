package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

// Follow gives the chunks of an item's output behind a sequence to fn, those already there
// first. It returns nil once ended is closed and fn has had all that was stored by then, or
// with the error of fn or ctx. It outlives reconnects.
func (o *Output) Follow(ctx context.Context, t events.Type, id events.ID, behind uint64, ended <-chan struct{}, fn func(wire.OutputChunk) error) error {
	return follow(ctx, o.cfg.Conn, o.cfg.Names.Output(t, id), ended, fn, func() ([]wire.OutputChunk, bool, error) {
		page, err := o.After(ctx, t, id, behind)
		if n := len(page.Chunks); n > 0 {
			behind = page.Chunks[n-1].Seq
		}
		return page.Chunks, page.More, err
	})
}

const (
	followRetry = 500 * time.Millisecond // before a follower asks again when nothing answers
	followLook  = time.Second            // how often it looks when nothing shows that there is more
)

// follow gives fn what next returns, until ended is closed and there is no more. A message on
// the subject shows that there may be more.
func follow[T any](ctx context.Context, nc *nats.Conn, subject string, ended <-chan struct{}, fn func(T) error, next func() (page []T, more bool, err error)) error {
	stored := make(chan struct{}, 1)
	sub, err := nc.Subscribe(subject, func(*nats.Msg) { nudge.Send(stored) })
	if err != nil {
		return fmt.Errorf("follow %s: %w", subject, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails when the connection is closed
	look := time.NewTicker(followLook)
	defer look.Stop()
	for last := false; ; {
		page, more, err := next()
		if ctx.Err() != nil || err != nil && events.CodeOf(err) != events.CodeUnavailable {
			return cmp.Or(ctx.Err(), err)
		}
		for _, v := range page {
			if err := fn(v); err != nil {
				return err
			}
		}
		switch {
		case err != nil:
			if err := sleep.For(ctx, followRetry); err != nil {
				return err
			}
			continue
		case more:
			continue
		case last:
			return nil
		}
		select {
		case <-stored:
		case <-look.C:
		case <-ended:
			last, ended = true, nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Start begins to remove the outputs of pruned items.
func (o *Output) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	o.done.Go(func() { o.prune(ctx) })
}

// Stop ends that. It may be called again, and without Start.
func (o *Output) Stop() {
	if o.cancel != nil {
		o.cancel()
	}
	o.done.Wait()
}

// Pruned notes that items are gone: their outputs are removed soon after. It never blocks, and
// costs nothing until somebody has written an output; what it has no room for, and a stream
// that another node has just made, the next sweep finds.
func (o *Output) Pruned(items []*events.Item) {
	if !o.there.Load() {
		return
	}
	for _, it := range items {
		select {
		case o.pruned <- it:
		default:
			return
		}
	}
}

// prune removes the outputs of items that are gone until ctx ends.
func (o *Output) prune(ctx context.Context) {
	sweep := time.NewTicker(outputSweep)
	defer sweep.Stop()
	_, _ = o.stream(ctx) // it notes whether there is one; if that fails, the next sweep asks again
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case item := <-o.pruned:
			o.forget(item.ID)
			err = o.remove(ctx, o.cfg.Names.Output(item.Type, item.ID))
		case <-sweep.C:
			err = o.Sweep(ctx)
		}
		if err != nil && ctx.Err() == nil {
			o.cfg.Logger.Warn("the outputs of items that are gone could not be removed: trying again later", "error", err)
		}
	}
}

// remove removes an output, if there is one.
func (o *Output) remove(ctx context.Context, subject string) error {
	s, err := o.stream(ctx)
	if s == nil {
		return err
	}
	return s.Purge(ctx, jetstream.WithPurgeSubject(subject))
}

// stream returns the stream; nil if there is none.
func (o *Output) stream(ctx context.Context) (jetstream.Stream, error) {
	s, err := o.js.Stream(ctx, o.cfg.Names.OutputStream())
	if err == nil {
		o.there.Store(true)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	return s, err
}

// Sweep removes the outputs of all items that do not exist.
func (o *Output) Sweep(ctx context.Context) error {
	s, err := o.stream(ctx)
	if s == nil {
		return err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(o.cfg.Names.OutputAll()))
	if err != nil {
		return fmt.Errorf("list the items' outputs: %w", err)
	}
	for subject := range info.State.Subjects {
		id, err := o.cfg.Names.OutputOf(subject)
		exists := false
		if err == nil {
			exists, err = o.cfg.Exists(ctx, id)
		}
		if err == nil && !exists {
			err = s.Purge(ctx, jetstream.WithPurgeSubject(subject))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
