package eventlog

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Bounds of a replay.
const (
	maxDecoders   = 8        // goroutines
	pipelineBytes = 16 << 20 // of the messages between fetch and fn, or one larger message
)

// task is a message on its way through the decoders.
type task struct {
	msg  Stored
	out  Decoded
	done chan struct{} // closed when out is filled
}

// size is the task's part of pipelineBytes.
func (t *task) size() int64 { return int64(min(len(t.msg.Data), pipelineBytes)) }

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

// put sends a message on its way; it fails when ctx ends.
func (p *pipeline) put(ctx context.Context, m Stored) error {
	t := &task{msg: m, done: make(chan struct{})}
	if err := p.room.Acquire(ctx, t.size()); err != nil {
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
			for t := range p.work {
				t.out = Decode(&t.msg)
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
		if err := d.Hand(t.msg.Seq, &t.out); err != nil {
			return err
		}
		p.room.Release(t.size())
	}
	return nil
}

// missing is the error for a log that lacks a frame, and goes on with another.
func missing(seq, next uint64) error {
	return &CorruptError{Frame: seq, Reason: fmt.Sprintf("it is missing: the log goes on with %d", next)}
}
