package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/directget"
	"github.com/streamwright/streamwright/wire"
)

const (
	// followAhead is how many records a followed log has fetched ahead.
	followAhead = 128
	// followRetry is how long it rests when the server does not answer.
	followRetry = 500 * time.Millisecond
)

// Follow gives the records of an item's log behind a sequence to fn, those
// already there first, until ctx ends or fn errs: that is the error it returns.
// It outlives reconnects.
func (l *Logs) Follow(ctx context.Context, t events.Type, id events.ID, behind uint64, fn func(wire.LogRecord) error) error {
	for ctx.Err() == nil {
		err := l.followOnce(ctx, l.names.Log(t, id), &behind, fn)
		var lost *feedLost
		if !errors.As(err, &lost) {
			return err
		}
		if l.nc.IsClosed() {
			return fmt.Errorf("follow the log of item %s: %w", id, lost.err)
		}
		select {
		case <-time.After(followRetry):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// feedLost is the end of a consumer, not of the log.
type feedLost struct{ err error }

func (e *feedLost) Error() string { return e.err.Error() }

// followOnce reads with one consumer for as long as it lasts.
func (l *Logs) followOnce(ctx context.Context, subject string, behind *uint64, fn func(wire.LogRecord) error) error {
	f, err := connect.OpenFeed(ctx, l.js, l.names, connect.FeedConfig{Stream: l.names.LogStream(), Filters: []string{subject}, FromSeq: *behind + 1, Messages: followAhead})
	if err != nil {
		return &feedLost{err}
	}
	defer f.Close()
	for {
		m, err := f.Next(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return &feedLost{err}
		}
		r := readRecord(m.Data)
		if r.Seq = m.Seq; r.At.IsZero() {
			r.At = m.Time
		}
		if err := fn(r); err != nil {
			return err
		}
		*behind = r.Seq
	}
}

// readRecord reads a message of a log; one that is no record comes as its text.
func readRecord(data []byte) (r wire.LogRecord) {
	if err := json.Unmarshal(data, &r); err != nil {
		return wire.LogRecord{Level: "info", Message: string(data)}
	}
	return r
}

// maxLogPage bounds a page of records, in bytes of stored messages and one
// message beyond. Written as a reply they may become twice as large.
const maxLogPage = 512 << 10

// After returns the first records of an item's log behind a sequence: at most
// limit of them, 0 meaning 1,000, and no more than fit into one reply.
func (l *Logs) After(ctx context.Context, t events.Type, id events.ID, behind uint64, limit int) (reply wire.LogsReply, err error) {
	if limit == 0 {
		limit = defaultLogRecords
	}
	msgs, pending, err := directget.Get(ctx, l.nc, l.names.JetStream("DIRECT.GET."+l.names.LogStream()), directget.Request{
		Seq: behind + 1, NextFor: l.names.Log(t, id), Batch: min(limit, defaultLogRecords), MaxBytes: maxLogPage,
	})
	switch {
	case errors.Is(err, directget.ErrUnreachable):
		return reply, events.Refuse(events.CodeUnavailable, "read the log of item %s: %v: ask again", id, err)
	case err != nil:
		return reply, fmt.Errorf("read the log of item %s: %w", id, err)
	}
	reply.Records = make([]wire.LogRecord, len(msgs))
	for i := range msgs {
		r := readRecord(msgs[i].Data)
		if r.Seq = msgs[i].Seq; r.At.IsZero() {
			r.At = msgs[i].Time
		}
		reply.Records[i] = r
	}
	reply.More = pending > 0
	return reply, nil
}

// LastSeq is the sequence of the last record of an item's log; 0 for none.
func (l *Logs) LastSeq(ctx context.Context, t events.Type, id events.ID) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, logWait)
	defer cancel()
	s, err := l.js.Stream(ctx, l.names.LogStream())
	if err != nil {
		return 0, fmt.Errorf("find the end of the log of item %s: %w", id, err)
	}
	m, err := s.GetLastMsgForSubject(ctx, l.names.Log(t, id))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("find the end of the log of item %s: %w", id, err)
	}
	return m.Sequence, nil
}
