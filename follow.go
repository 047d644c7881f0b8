package streamwright

import (
	"context"

	"github.com/streamwright/streamwright/events"
)

// FollowLogs tells fn each record of an item's log, those already there
// first, and returns nil once the item is completed, dead or cancelled and its
// last record has been told. It ends early with fn's error, or when ctx ends.
func (c *Client) FollowLogs(ctx context.Context, id string, fn func(LogRecord) error) error {
	workID, err := events.ParseID(id)
	if err != nil {
		return events.Refuse(events.CodeBadID, "%v", err)
	}
	item, err := c.Get(ctx, id) // an unknown item is refused before anything waits for it
	if err != nil {
		return err
	}
	if item.State == events.StateMerged && item.MergedInto != "" {
		return c.FollowLogs(ctx, item.MergedInto, fn)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	feed, err := c.openLogFeed(ctx, id, c.set.names.Log(events.Type(item.Type), workID))
	if err != nil {
		return err
	}
	defer feed.close()
	ended, finished := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(finished)
		_, err := c.Wait(ctx, id)
		ended <- err
	}()
	defer func() {
		cancel()
		<-finished
	}()
	return followTo(ctx, feed, ended, fn)
}

// followTo tells fn the records of a feed. Once the item has ended, so does the
// feed.
func followTo(ctx context.Context, f *logFeed, ended <-chan error, fn func(LogRecord) error) error {
	for {
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
			ended = nil
			f.finish()
		case page := <-f.next:
			if page.err != nil {
				return page.err
			}
			for _, rec := range page.records {
				if err := fn(rec); err != nil {
					return err
				}
			}
			if page.last {
				return nil
			}
		case <-ctx.Done():
			return endOf("follow the log", ctx.Err(), nil)
		}
	}
}
