package api

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
	made, cancel := context.WithTimeout(ctx, logWait)
	defer cancel()
	c, err := l.js.OrderedConsumer(made, l.names.LogStream(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{subject}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: *behind + 1,
	})
	if err != nil {
		return &feedLost{err}
	}
	msgs, err := c.Messages(jetstream.PullMaxMessages(followAhead))
	if err != nil {
		return &feedLost{err}
	}
	defer msgs.Stop()
	for {
		m, err := msgs.Next(jetstream.NextContext(ctx))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return &feedLost{err}
		}
		meta, err := m.Metadata()
		if err != nil {
			return &feedLost{err}
		}
		r := readRecord(m.Data())
		if r.Seq = meta.Sequence.Stream; r.At.IsZero() {
			r.At = meta.Timestamp
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

// Tip is the sequence of the last record of an item's log; 0 for none.
func (l *Logs) Tip(ctx context.Context, t events.Type, id events.ID) (uint64, error) {
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
