package eventlog

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/streamwright/streamwright/events"
)

// Bounds of a replay.
const (
	maxDecoders   = 8        // goroutines
	pipelineBytes = 16 << 20 // of the messages between fetch and fn, or one larger message
)

// task holds messages on their way through the decoders.
type task struct {
	msgs []Stored
	out  []Decoded
	size int64         // its part of pipelineBytes
	done chan struct{} // closed when out is filled
}

// pipeline decodes messages on several goroutines and hands them on in order.
type pipeline struct {
	work    chan *task
	ordered chan *task
	room    *semaphore.Weighted // of pipelineBytes
}

func newPipeline() *pipeline {
	n := min(runtime.GOMAXPROCS(0), maxDecoders)
	return &pipeline{work: make(chan *task, 4*n), ordered: make(chan *task, 8*n), room: semaphore.NewWeighted(pipelineBytes)}
}

// put sends messages on their way; it fails when ctx ends.
func (p *pipeline) put(ctx context.Context, msgs []Stored) error {
	t := &task{msgs: msgs, done: make(chan struct{})}
	for i := range msgs {
		t.size += int64(len(msgs[i].Data))
	}
	t.size = min(t.size, pipelineBytes)
	if err := p.room.Acquire(ctx, t.size); err != nil {
		return err
	}
	select {
	case p.ordered <- t:
	case <-ctx.Done():
		return ctx.Err()
	}
	// Every task in ordered must reach work, else the consumer would wait for
	// it: the decoders drain work until it is closed.
	p.work <- t
	return nil
}

// replay runs fetch, which puts messages until it returns, beside the decoders,
// and passes the frames to fn from this goroutine. All goroutines have ended when
// it returns.
func replay(ctx context.Context, foreign ForeignFunc, fetch func(context.Context, *pipeline) error, fn func(Frame) error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	p := newPipeline()
	var (
		wg       sync.WaitGroup
		fetchErr error
	)
	wg.Go(func() {
		fetchErr = fetch(ctx, p)
		close(p.work)
		close(p.ordered)
	})
	for range min(runtime.GOMAXPROCS(0), maxDecoders) {
		wg.Go(func() {
			var d events.Decoder
			for t := range p.work {
				t.out = make([]Decoded, len(t.msgs))
				for i := range t.msgs {
					t.out[i] = decode(&d, &t.msgs[i])
				}
				close(t.done)
			}
		})
	}
	err = p.deliver(&Delivery{Frames: fn, Foreign: foreign})
	cancel()
	wg.Wait()
	if err == nil {
		err = fetchErr
	}
	return err
}

func (p *pipeline) deliver(d *Delivery) error {
	for t := range p.ordered {
		<-t.done
		for i := range t.out {
			if err := d.Hand(t.msgs[i].Seq, &t.out[i]); err != nil {
				return err
			}
		}
		p.room.Release(t.size)
	}
	return nil
}

// missing is the error for a log that lacks a frame, and goes on with another.
func missing(seq, next uint64) error {
	return &CorruptError{Frame: seq, Reason: fmt.Sprintf("it is missing: the log goes on with %d", next)}
}
