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
	msg     Stored
	done    chan struct{} // closed when what follows is filled
	frame   Frame
	foreign string // why it is no frame; empty: it is one
	err     error
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
				t.frame, t.foreign, t.err = Decode(&t.msg)
				close(t.done)
			}
		})
	}
	err = p.deliver(foreign, fn)
	cancel()
	wg.Wait()
	if err == nil {
		err = fetchErr
	}
	return err
}

func (p *pipeline) deliver(foreign ForeignFunc, fn func(Frame) error) error {
	skipped := 0
	for t := range p.ordered {
		<-t.done
		switch {
		case t.err != nil:
			return t.err
		case t.foreign != "":
			skipped++
			if foreign != nil {
				foreign(t.msg.Seq, t.foreign)
			}
		default:
			t.frame.Skipped, skipped = skipped, 0
			if err := fn(t.frame); err != nil {
				return err
			}
		}
		p.room.Release(t.size())
	}
	return nil
}

// missing is the error for a log that lacks a frame, and goes on with another.
func missing(seq, next uint64) error {
	return &CorruptError{Frame: seq, Reason: fmt.Sprintf("it is missing: the log goes on with %d", next)}
}
