package streamwright

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/wire"
)

// logFeed gives the records of an item's log in pages, which the engine reads.
// A record that is published wakes it.
type logFeed struct {
	c      *Client
	id     string
	sub    *nats.Subscription
	wake   chan struct{} // room for one
	ended  atomic.Bool   // nothing more is written to the log
	next   chan logged
	done   chan struct{}
	cancel context.CancelFunc
}

// logged is a page of a log, or why there is none.
type logged struct {
	records []LogRecord
	last    bool // it was asked for after finish, and nothing is behind it
	err     error
}

// logLook is how often a log is looked at when nothing shows that it has grown.
const logLook = time.Second

func (c *Client) openLogFeed(ctx context.Context, id, subject string) (*logFeed, error) {
	f := &logFeed{c: c, id: id, wake: make(chan struct{}, 1), next: make(chan logged), done: make(chan struct{})}
	sub, err := c.nc.Subscribe(subject, func(*nats.Msg) { f.look() })
	if err != nil {
		return nil, c.failed("follow the log", err)
	}
	f.sub = sub
	ctx, f.cancel = context.WithCancel(ctx)
	go f.run(ctx)
	return f, nil
}

// look makes the feed look for more at once.
func (f *logFeed) look() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// finish says that the log is complete: the feed reads what is there and ends.
func (f *logFeed) finish() {
	f.ended.Store(true)
	f.look()
}

func (f *logFeed) run(ctx context.Context) {
	defer close(f.done)
	after, patience := uint64(0), f.c.set.patience
	for {
		ended := f.ended.Load()
		reply, err := askFor[wire.LogsReply](ctx, f.c, wire.APILogs, wire.Logs{ID: f.id, After: &after}, f.c.set.tryTimeout, patience)
		patience = forever
		if n := len(reply.Records); n > 0 {
			after = reply.Records[n-1].Seq
		}
		select {
		case f.next <- logged{reply.Records, ended && !reply.More, err}:
		case <-ctx.Done():
			return
		}
		if err != nil || !reply.More && !f.wait(ctx) {
			return
		}
	}
}

// wait returns when the log may have grown; false when ctx has ended.
func (f *logFeed) wait(ctx context.Context) bool {
	t := time.NewTimer(logLook)
	defer t.Stop()
	select {
	case <-f.wake:
	case <-t.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// close ends the feed and awaits its goroutine.
func (f *logFeed) close() {
	f.cancel()
	_ = f.sub.Unsubscribe() // fails when the connection is closed, and is not needed then
	<-f.done
}
