package eventlog

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of a replay. In memory are at most the chunks of one pipeline (see
// newPipeline), each up to chunkBytes and one message, and the events decoded
// from them.
const (
	chunkMessages = 512
	chunkBytes    = 2 << 20
	maxDecoders   = 8 // goroutines of one replay
)

// chunk is a run of messages on its way through the decoders.
type chunk struct {
	msgs []message
	out  []decoded
	size int
	done chan struct{} // closed when out is filled
}

func (c *chunk) add(m message) {
	c.msgs = append(c.msgs, m)
	c.size += len(m.data)
}

func (c *chunk) full() bool { return len(c.msgs) >= chunkMessages || c.size >= chunkBytes }

// pipeline decodes chunks on several goroutines and hands them on in order.
type pipeline struct {
	work    chan *chunk
	ordered chan *chunk
	free    chan []decoded // whose events are handed on
}

func newPipeline() *pipeline {
	n := min(runtime.GOMAXPROCS(0), maxDecoders)
	return &pipeline{work: make(chan *chunk, n), ordered: make(chan *chunk, 2*n), free: make(chan []decoded, n)}
}

// put sends a chunk on its way; it fails when ctx ends.
func (p *pipeline) put(ctx context.Context, c *chunk) error {
	c.done = make(chan struct{})
	select {
	case p.ordered <- c:
	case <-ctx.Done():
		return ctx.Err()
	}
	// Every chunk in ordered must reach work, else the consumer would wait for
	// it: the decoders drain work until it is closed.
	p.work <- c
	return nil
}

// replay runs fetch, which puts chunks until it returns, beside the decoders,
// and passes the decoded chunks to fn from this goroutine. All goroutines have
// ended when it returns.
func replay(ctx context.Context, names wire.Names, partition int, foreign ForeignFunc,
	fetch func(context.Context, *pipeline) error, fn func(Group) error) (err error) {
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
	for range cap(p.work) {
		wg.Go(func() { p.decode(newDecoder(names, partition)) })
	}
	err = p.deliver(foreign, fn)
	cancel()
	wg.Wait()
	if err == nil {
		err = fetchErr
	}
	return err
}

func (p *pipeline) decode(d *decoder) {
	for c := range p.work {
		select {
		case c.out = <-p.free:
		default:
		}
		c.out = slices.Grow(c.out[:0], len(c.msgs))[:len(c.msgs)]
		for i, m := range c.msgs {
			c.out[i] = d.decode(m)
		}
		close(c.done)
	}
}

func (p *pipeline) deliver(foreign ForeignFunc, fn func(Group) error) error {
	var g Grouper
	for c := range p.ordered {
		<-c.done
		for i := range c.out {
			if err := g.take(&c.out[i], foreign); err != nil {
				if ferr := flush(&g, fn); ferr != nil {
					return ferr
				}
				return err
			}
		}
		if err := flush(&g, fn); err != nil {
			return err
		}
		clear(c.out)
		select {
		case p.free <- c.out:
		default:
		}
	}
	return nil
}

// take gives one judged message to the grouper.
func (g *Grouper) take(d *decoded, foreign ForeignFunc) error {
	switch {
	case d.err != nil:
		return d.err
	case d.foreign != "":
		if foreign != nil {
			foreign(d.seq, d.subject, d.foreign)
		}
		g.Foreign(d.seq, d.sum)
		return nil
	}
	return g.Event(d.ev, d.sum, d.size)
}

func flush(g *Grouper, fn func(Group) error) error {
	for {
		grp, ok := g.Take()
		if !ok {
			return nil
		}
		if err := fn(grp); err != nil {
			return err
		}
	}
}

// checkRange reports whether from to to lies within what a log keeps.
func checkRange(tip Tip, from, to events.Seq) error {
	switch {
	case from < tip.First && from <= tip.Seq:
		return &TrimmedError{Asked: from, First: tip.First}
	case to > tip.Seq:
		return &BehindError{Known: to, Last: tip.Seq}
	}
	return nil
}
