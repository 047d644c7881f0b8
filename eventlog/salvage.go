package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/internal/sleep"
)

var (
	// ErrNoLog: the stream is not there, and was not to be made.
	ErrNoLog = errors.New("the event stream is not there")

	// ErrUnfinished: the log is one that a salvage has begun and not finished.
	ErrUnfinished = errors.New("the event stream is what a salvage that was interrupted has left")

	// ErrUnrestored: the log is one that a restore has begun and not finished.
	ErrUnrestored = errors.New("the event stream is what a restore that was interrupted has left")

	// ErrNotEmpty: a log that is to be made anew holds events.
	ErrNotEmpty = errors.New("the event stream holds events")
)

// unfinishedKey marks, in the stream's metadata, a log that is being written
// from a store.
const unfinishedKey = "streamwright-salvage"

// Create makes a log whose first frame will have a sequence, and which Open
// refuses until [JetStream.Finish]. A stream that is empty, or that an earlier
// Create has left unfinished, is made that log; one with events is refused with
// [ErrNotEmpty].
func Create(ctx context.Context, cfg Config, first uint64) (*JetStream, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("create event log: %w", err)
	}
	l := newJetStream(cfg.WithDefaults())
	err := l.create(ctx, first)
	if err == nil {
		err = l.open(ctx, true)
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

func (l *JetStream) create(ctx context.Context, first uint64) error {
	js, err := l.js()
	if err != nil {
		return err
	}
	cfg := l.cfg.stream()
	cfg.FirstSeq = first
	cfg.Metadata = map[string]string{unfinishedKey: "unfinished"}
	s, err := js.Stream(ctx, cfg.Name)
	switch {
	case err == nil && s.CachedInfo().State.Msgs > 0 && s.CachedInfo().Config.Metadata[unfinishedKey] == "":
		st := s.CachedInfo().State
		return fmt.Errorf("create event stream %s: %w (%d to %d): nothing was changed", cfg.Name, ErrNotEmpty, st.FirstSeq, st.LastSeq)
	case err == nil:
		// There is nothing in it that anybody needs.
		if err := js.DeleteStream(ctx, cfg.Name); err != nil {
			return fmt.Errorf("create event stream %s: remove the one without events: %w", cfg.Name, err)
		}
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("create event stream %s: %w", cfg.Name, err)
	}
	for wait := RetryMin; ; {
		_, err := js.CreateStream(ctx, cfg)
		var api *jetstream.APIError
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &api) || api.ErrorCode != codeStoreNotMade || wait == RetryMax:
			return fmt.Errorf("create event stream %s: %w", cfg.Name, err)
		}
		_ = sleep.Longer(ctx, &wait, RetryMax) // its error shows in the next attempt
	}
}

// codeStoreNotMade is the server's error for a stream whose folder it could not make: it may
// still be writing to the one of the stream of that name that was just deleted.
const codeStoreNotMade = 10049

// Finish ends what Create has begun: from then on Open takes the log.
func (l *JetStream) Finish(ctx context.Context) error {
	js, err := l.js()
	if err != nil {
		return err
	}
	s, err := js.Stream(ctx, l.stream)
	if err != nil {
		return fmt.Errorf("finish event stream %s: %w", l.stream, err)
	}
	cfg := s.CachedInfo().Config
	delete(cfg.Metadata, unfinishedKey)
	if _, err := js.UpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("finish event stream %s: %w", l.stream, err)
	}
	return nil
}
