package dispatcher

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/eventlog"
)

// appendBatches is the appender goroutine. It ends when its channel is closed.
func (l *loop) appendBatches(ctx context.Context) {
	for b := range l.toAppend {
		start := time.Now()
		r := appendResult{b: b}
		if len(b.events) == 0 {
			r.err = l.confirmOwner(ctx, b)
		} else {
			r.res, r.err = l.cfg.Log.Append(context.WithoutCancel(ctx), b.after, b.events)
		}
		r.took = time.Since(start)
		l.results <- r
	}
}

// confirmOwner checks, at the stream's leader, that nobody has appended since:
// an answer that appends nothing is only as good as the ownership behind it.
// Foreign messages don't count: they decide nothing.
func (l *loop) confirmOwner(ctx context.Context, b *batch) error {
	tip, err := l.cfg.Log.Last(ctx)
	if err != nil {
		return err
	}
	if tip.Seq == b.after {
		return nil
	}
	if tip.Seq > b.after {
		if alone, err := l.cfg.Log.Foreign(ctx, b.after, tip.Seq); alone || err != nil {
			return err
		}
	}
	return eventlog.ErrFenced
}

// sendReplies is the replying goroutine: answers are encoded and sent while
// the loop goes on.
func (l *loop) sendReplies() {
	for jobs := range l.toReply {
		for _, j := range jobs {
			j.finish()
		}
	}
}

// errUnknown answers what was under way when an ownership ended.
var errUnknown = events.Refuse(events.CodeUnavailable, "the engine is recovering and does not know what became of this: ask again, with the same id")

// abandon answers everything that was taken and can't be finished, after an
// error, and takes what the appender still sends.
func (l *loop) abandon(err error) {
	l.abandonAll(l.inflow.jobs) // answered by nobody: the next ownership reads them again
	for len(l.intake) > 0 {
		(<-l.intake).abandon(errUnknown)
	}
	if err == nil {
		return
	}
	switch {
	case l.interrupted != nil:
		l.abandonAll(l.interrupted.b.done) // durable, and not told
	case l.appending:
		l.abandonAll((<-l.results).b.done)
	}
	l.abandonAll(l.building.done)
	l.abandonAll(l.urgent.jobs)
	l.abandonAll(l.bulk.jobs)
}

func (l *loop) abandonAll(jobs []job) {
	for _, j := range jobs {
		j.abandon(errUnknown)
	}
}
