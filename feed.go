package streamwright

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/wire"
)

// feed asks for the pages of the log, one ahead of their use. It takes itself up
// again after a lost connection, and when the engine has restarted.
type feed struct {
	c      *Client
	pages  chan fed
	done   chan struct{}
	cancel context.CancelFunc
}

type fed struct {
	page wire.EventsReply
	err  error
}

// feedWait is how long one request for events waits for the first.
const feedWait = 20 * time.Second

// openFeed asks for the first page, which settles where the feed begins.
func (c *Client) openFeed(ctx context.Context, req wire.ReadEvents) (*feed, error) {
	first, err := ask[wire.EventsReply](ctx, c, wire.APIEvents, req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{c: c, pages: make(chan fed), done: make(chan struct{}), cancel: cancel}
	go f.run(ctx, req, first)
	return f, nil
}

func (f *feed) run(ctx context.Context, req wire.ReadEvents, page wire.EventsReply) {
	defer close(f.done)
	req.Since, req.WaitMS = time.Time{}, feedWait.Milliseconds()
	for {
		if len(page.Events) > 0 || page.Gap != nil {
			if !f.send(ctx, fed{page: page}) {
				return
			}
		}
		req.FromSeq = page.NextSeq
		var err error
		page, err = askFor[wire.EventsReply](ctx, f.c, wire.APIEvents, req, feedWait+f.c.set.tryTimeout, forever)
		if err != nil {
			f.send(ctx, fed{err: err})
			return
		}
	}
}

func (f *feed) send(ctx context.Context, v fed) bool {
	select {
	case f.pages <- v:
		return true
	case <-ctx.Done():
		return false
	}
}

// close ends the feed and awaits its goroutine.
func (f *feed) close() {
	f.cancel()
	<-f.done
}
