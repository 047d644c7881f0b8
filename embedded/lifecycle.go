package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// part is something that is started and stopped. A part without a start only has its turn
// in the stop, one without a stop is a step of the start. A start that fails leaves nothing
// behind: its own stop is not called.
type part struct {
	name  string
	start func(context.Context) error
	stop  func(context.Context) error
}

// just makes a start or a stop of what neither waits nor fails.
func just(fn func()) func(context.Context) error {
	return func(context.Context) error { fn(); return nil }
}

// lifecycle holds the parts that run.
type lifecycle struct {
	log   *slog.Logger
	parts []part // in the order of their starts
	once  sync.Once
	err   error // of stop
}

// undoTimeout bounds the stop after a start that failed.
const undoTimeout = 30 * time.Second

// start starts parts in order. When one fails, or ctx ends, it stops all in reverse, and
// nothing runs when it returns.
func (l *lifecycle) start(ctx context.Context, parts ...part) error {
	for _, p := range parts {
		err := ctx.Err()
		if err != nil {
			err = fmt.Errorf("start %s: %w", p.name, err)
		} else if p.start != nil {
			err = p.start(ctx)
		}
		if err != nil {
			undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
			defer cancel()
			return errors.Join(err, l.stop(undo))
		}
		l.parts = append(l.parts, p)
	}
	return nil
}

// stop stops the parts in reverse. Each gets half of the time that is left, so that one
// that hangs leaves some to the next ones. It may be called again, by several goroutines:
// each call returns when all has stopped. REQUIRES: start has returned.
func (l *lifecycle) stop(ctx context.Context) error {
	l.once.Do(func() {
		for i := len(l.parts) - 1; i >= 0; i-- {
			p, begun := l.parts[i], time.Now()
			if p.stop == nil {
				continue
			}
			share, cancel := halfOf(ctx)
			l.err = errors.Join(l.err, p.stop(share))
			cancel()
			l.log.Debug("stopped", "what", p.name, "took", time.Since(begun))
		}
	})
	return l.err
}

// halfOf returns a context with half of the time that is left to ctx.
func halfOf(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/2)
}
