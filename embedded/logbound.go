package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

const (
	// boundLook is the least time between two looks at the size of a log that has a bound.
	boundLook = time.Second
	// boundAgain is the time between two looks while the log is at its bound: a cut frees room
	// without an event that says so.
	boundAgain = 2 * time.Second
	// boundWithin bounds one look.
	boundWithin = 5 * time.Second
)

// logBound watches that the log of a namespace stays within its max_log_bytes. Beyond it new
// work is refused; what was accepted goes on, and may add to the log. It looks when the log
// has grown, and so not at all while nothing happens. The zero logBound has no bound.
type logBound struct {
	name events.Namespace
	most int64
	last func(context.Context) (eventlog.Tip, error) // of the log
	tell func(full bool)                             // is called when that changes
	log  *slog.Logger

	alarm  atomic.Pointer[api.RoomAlarm] // nil: there is room
	grown  chan struct{}
	cancel context.CancelFunc
	run    sync.WaitGroup
}

// full returns what is full; nil: there is room.
func (b *logBound) full() *api.RoomAlarm { return b.alarm.Load() }

// grew notes that the log has grown. It never waits.
func (b *logBound) grew() { nudge.Send(b.grown) }

// start looks once, and then whenever it has to, until stop.
func (b *logBound) start(ctx context.Context) {
	if b.most == 0 {
		return
	}
	b.grown = make(chan struct{}, 1)
	again := b.look(ctx)
	watch, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	b.run.Go(func() { b.watch(watch, again) })
}

func (b *logBound) stop() {
	if b.cancel != nil {
		b.cancel()
		b.run.Wait()
	}
}

func (b *logBound) watch(ctx context.Context, again bool) {
	for {
		if again {
			_ = sleep.For(ctx, boundAgain)
		} else {
			select {
			case <-ctx.Done():
			case <-b.grown:
			}
		}
		if ctx.Err() != nil {
			return
		}
		if again = b.look(ctx); !again {
			_ = sleep.For(ctx, boundLook)
		}
	}
}

// look looks at the size of the log, and reports whether to look again though it does not
// grow: it is full, or did not answer.
func (b *logBound) look(ctx context.Context) (again bool) {
	ctx, cancel := context.WithTimeout(ctx, boundWithin)
	defer cancel()
	tip, err := b.last(ctx)
	if err != nil {
		b.log.Debug("the size of the event log is not known: looking again", "error", err)
		return true
	}
	was := b.full() != nil
	full := tip.Bytes > uint64(b.most)
	switch {
	case full:
		b.alarm.Store(logFull(b.name, int64(tip.Bytes), b.most))
	case was:
		b.alarm.Store(nil)
	}
	if full != was {
		b.tell(full)
		if full {
			b.log.Warn("the event log is larger than its max_log_bytes: new work is refused", "bytes", tip.Bytes, "max_log_bytes", b.most)
		} else {
			b.log.Info("the event log is within its max_log_bytes again: new work is taken", "bytes", tip.Bytes, "max_log_bytes", b.most)
		}
	}
	return full
}

func logFull(name events.Namespace, bytes, most int64) *api.RoomAlarm {
	fact := fmt.Sprintf("the event log of the namespace %s has %.1f MiB, and may have %.1f MiB", name, float64(bytes)/(1<<20), float64(most)/(1<<20))
	do := "cut it (`engine cut --namespace " + string(name) + "`), or raise the bound (`engine namespace set " + string(name) + " --max-log-size`)"
	why := events.Refuse(events.CodeUnavailable, "%s: %s, then ask again", fact, do)
	why.RetryAfter = boundAgain
	return &api.RoomAlarm{Status: wire.AlarmLog, Fact: fact, Do: do, Why: why}
}
