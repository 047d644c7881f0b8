package streamwright

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
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
	subject := c.set.names.Log(events.Type(item.Type), workID)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	feed, err := c.openLogFeed(ctx, subject)
	if err != nil {
		return err
	}
	defer feed.close()
	ended, finished := make(chan logEnd, 1), make(chan struct{})
	go func() {
		defer close(finished)
		ended <- c.logEnd(ctx, id, subject)
	}()
	defer func() {
		cancel()
		<-finished
	}()
	return followTo(ctx, feed, ended, fn)
}

// logEnd is where a finished item's log ends.
type logEnd struct {
	seq uint64 // of its last record, 0 for none
	err error
}

func (c *Client) logEnd(ctx context.Context, id, subject string) logEnd {
	if _, err := c.Wait(ctx, id); err != nil {
		return logEnd{err: err}
	}
	s, err := c.js.Stream(ctx, c.set.names.LogStream())
	if err != nil {
		return logEnd{err: c.failed("follow the log", err)}
	}
	last, err := s.GetLastMsgForSubject(ctx, subject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return logEnd{}
	case err != nil:
		return logEnd{err: c.failed("follow the log", err)}
	}
	return logEnd{seq: last.Sequence}
}

// followTo tells fn the records of a feed up to the end of the log, once that
// is known.
func followTo(ctx context.Context, f *logFeed, ended <-chan logEnd, fn func(LogRecord) error) error {
	var told uint64 // the last record
	end := logEnd{}
	known := false
	for !known || told < end.seq {
		select {
		case end = <-ended:
			if known = true; end.err != nil {
				return end.err
			}
			ended = nil
		case m := <-f.next:
			if m.err != nil {
				return fmt.Errorf("follow the log: %w", m.err)
			}
			rec := readRecord(m.msg)
			told = rec.Seq
			if err := fn(rec); err != nil {
				return err
			}
		case <-ctx.Done():
			return endOf("follow the log", ctx.Err(), nil)
		}
	}
	return nil
}

// readRecord reads one message of an item's log. One that is no record, such
// as a line published by hand, is told as its text.
func readRecord(msg *jetstream.RawStreamMsg) LogRecord {
	var rec LogRecord
	if err := json.Unmarshal(msg.Data, &rec); err != nil {
		rec = wire.LogRecord{At: msg.Time, Level: "info", Message: string(msg.Data)}
	}
	rec.Seq = msg.Sequence
	if rec.At.IsZero() {
		rec.At = msg.Time.Round(time.Microsecond)
	}
	return rec
}
