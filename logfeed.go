package streamwright

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// logFeed gives the records of an item's log one by one. It gets each by itself
// and makes no consumer, since who may make consumers on the stream of the logs
// could have it deliver what workers wrote there to any subject. That something
// is there to be got shows when it is published.
type logFeed struct {
	c       *Client
	stream  string
	subject string
	handle  jetstream.Stream
	sub     *nats.Subscription
	wake    chan struct{} // room for one
	next    chan logged
	done    chan struct{}
	cancel  context.CancelFunc
}

type logged struct {
	msg *jetstream.RawStreamMsg
	err error
}

// logLook is how often a log is looked at when nothing shows that it has grown.
const logLook = time.Second

func (c *Client) openLogFeed(ctx context.Context, subject string) (*logFeed, error) {
	f := &logFeed{c: c, stream: c.set.names.LogStream(), subject: subject, wake: make(chan struct{}, 1), next: make(chan logged), done: make(chan struct{})}
	err := c.retry(ctx, "read "+f.stream, c.set.patience, func(ctx context.Context) (err error) {
		ctx, cancel := c.trying(ctx, "", c.set.tryTimeout)
		defer cancel()
		f.handle, err = c.js.Stream(ctx, f.stream)
		return c.feedFailed(f.stream, lostOr(ctx, err))
	})
	if err != nil {
		return nil, err
	}
	if f.sub, err = c.nc.Subscribe(subject, func(*nats.Msg) { f.look() }); err != nil {
		return nil, c.feedFailed(f.stream, err)
	}
	ctx, f.cancel = context.WithCancel(ctx)
	go f.run(ctx)
	return f, nil
}

func (f *logFeed) look() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *logFeed) run(ctx context.Context) {
	defer close(f.done)
	for seq := uint64(1); ; {
		msg, err := f.get(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			if !f.wait(ctx) {
				return
			}
			continue
		}
		select {
		case f.next <- logged{msg, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
		seq = msg.Sequence + 1
	}
}

// get gets the first record at or behind a position, trying again while the
// server can't be reached.
func (f *logFeed) get(ctx context.Context, seq uint64) (msg *jetstream.RawStreamMsg, err error) {
	missing := false
	err = f.c.retry(ctx, "read "+f.stream, forever, func(ctx context.Context) error {
		ctx, cancel := f.c.trying(ctx, "", f.c.set.tryTimeout)
		defer cancel()
		m, err := f.handle.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(f.subject))
		if missing = errors.Is(err, jetstream.ErrMsgNotFound); missing {
			return nil
		}
		msg = m
		return f.c.feedFailed(f.stream, lostOr(ctx, err))
	})
	if missing && err == nil {
		err = jetstream.ErrMsgNotFound
	}
	return msg, err
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
