package eventlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/internal/turns"
	"github.com/streamwright/streamwright/wire"
)

// duplicateWindow is the shortest that the server allows. Frames have no message ids.
const duplicateWindow = 100 * time.Millisecond

// DefaultAckTimeout bounds the time that an Append waits for the server.
const DefaultAckTimeout = 5 * time.Second

// Config says which log to open.
type Config struct {
	// Connect dials the server. The log takes two connections of its own, one
	// only for appending, and takes new ones on Reset and when one has broken;
	// it closes them all. Required options: nats.ReconnectBufSize(-1), so that no
	// publish is sent later than it was made, after the log has given it up. A
	// short nats.FlusherTimeout bounds how long a stuck connection can hold an
	// Append beyond AckTimeout.
	Connect func() (*nats.Conn, error)

	Names     wire.Names // zero: wire.Default
	Partition int

	// Replicas is the stream's number of replicas: 1, 3 or 5. 0 keeps an
	// existing stream's, and makes a new one with 1. An existing stream is brought
	// to this number.
	Replicas int
	// Placement lists tags of the servers on which a new stream is made; none: any.
	Placement []string
	// Turns is the share of the processors that appends and reads take; nil: they give way to
	// nobody in particular.
	Turns *turns.Share
	// Existing makes Open fail with ErrNoLog, instead of making a stream, where
	// there is none: for callers that know there was one.
	Existing bool
	// Folder is that of the account's streams, if a server of this process keeps them; long reads
	// then begin with its files. Empty: all frames are asked for.
	Folder string
	// Gaps lets a mirror lack frames that its origin cut before they were copied: the frame
	// behind them is [Frame.Lost]. Otherwise they are corruption.
	Gaps bool
	// Memory keeps the stream in the server's memory: for tests.
	Memory bool
	// MaxBytes bounds the stream; 0 or less: only by the server's storage.
	MaxBytes int64

	// AckTimeout bounds the time that an Append waits for the server; after it
	// the outcome is unknown. 0: DefaultAckTimeout.
	AckTimeout time.Duration

	Logger    *slog.Logger // nil: none. It hears of foreign messages, of some a second
	OnForeign ForeignFunc  // hears of all of them; nil: nobody
}

// WithDefaults returns c with defaults for the fields that are not set.
func (c Config) WithDefaults() Config {
	if c.Names == (wire.Names{}) {
		c.Names = wire.Default
	}
	if c.AckTimeout == 0 {
		c.AckTimeout = DefaultAckTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate reports everything that is wrong, joined.
func (c Config) Validate() error {
	var errs []error
	if c.Connect == nil {
		errs = append(errs, errors.New("log config: Connect is missing: give a function that dials the NATS server"))
	}
	if c.Partition < 0 {
		errs = append(errs, fmt.Errorf("log config: Partition is %d: it must not be negative", c.Partition))
	}
	if c.Replicas < 0 || c.Replicas > 5 {
		errs = append(errs, fmt.Errorf("log config: Replicas is %d: it must be 1, 3 or 5, or 0 for what the stream has", c.Replicas))
	}
	if c.AckTimeout < 0 {
		errs = append(errs, fmt.Errorf("log config: AckTimeout is %s: it must not be negative", c.AckTimeout))
	}
	return errors.Join(errs...)
}

// stream is the stream's configuration as the log needs it.
func (c Config) stream() jetstream.StreamConfig {
	s := jetstream.StreamConfig{
		Name:              c.Names.EventStream(c.Partition),
		Description:       "Every transition of every work item, in frames. Written by the engine alone.",
		Subjects:          []string{c.Names.Frame(c.Partition)},
		Retention:         jetstream.LimitsPolicy,
		Discard:           jetstream.DiscardNew, // the truth is never dropped to make room
		Storage:           jetstream.FileStorage,
		Compression:       jetstream.NoCompression, // the server (2.15) may compress a block that it still appends to, which destroys it
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgsPerSubject: -1,
		MaxMsgSize:        -1,
		MaxConsumers:      -1,
		Replicas:          max(c.Replicas, 1),
		Placement:         connect.Placement(c.Placement),
		Duplicates:        duplicateWindow,
		AllowDirect:       true,
	}
	if c.Memory {
		s.Storage = jetstream.MemoryStorage
	}
	if c.MaxBytes > 0 {
		s.MaxBytes = c.MaxBytes
	}
	return s
}

// ensureStream creates the stream, or checks the one that exists and adjusts
// what may change in its life. It returns its replicas.
func ensureStream(ctx context.Context, js jetstream.JetStream, c Config, unfinished bool) (int, error) {
	want := c.stream()
	s, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if c.Existing {
			return 0, fmt.Errorf("open event stream %s: %w", want.Name, ErrNoLog)
		}
		s, err = js.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another engine was quicker
			s, err = js.Stream(ctx, want.Name)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("open event stream %s: %w", want.Name, err)
	}
	have := s.CachedInfo().Config
	if have.Metadata[unfinishedKey] != "" && !unfinished {
		return 0, fmt.Errorf("open event stream %s: %w: run engine salvage again, which begins it anew", want.Name, ErrUnfinished)
	}
	if err := checkRestored(have.Metadata); err != nil {
		return 0, fmt.Errorf("open event stream %s: %w", want.Name, err)
	}
	if c.Replicas == 0 {
		want.Replicas = have.Replicas
	}
	if err := incompatible(have, want); err != nil {
		return 0, fmt.Errorf("open event stream %s: it exists with settings that an event log can't have: use another prefix, or correct or delete that stream: %w", want.Name, err)
	}
	if have.MaxBytes == want.MaxBytes && have.Duplicates == want.Duplicates && have.Replicas == want.Replicas && have.Compression == want.Compression && have.AllowDirect {
		return have.Replicas, nil
	}
	upd := have
	upd.MaxBytes, upd.Duplicates, upd.Replicas, upd.Compression, upd.AllowDirect = want.MaxBytes, want.Duplicates, want.Replicas, want.Compression, true
	if _, err := js.UpdateStream(ctx, upd); err != nil {
		return 0, fmt.Errorf("open event stream %s: update its settings: %w", want.Name, err)
	}
	c.Logger.Info("updated the event stream's settings", "stream", want.Name, "max_bytes", want.MaxBytes, "duplicate_window", want.Duplicates, "replicas", want.Replicas)
	return want.Replicas, nil
}

// incompatible reports every setting with which a stream would lose or refuse
// events, or that can't be changed.
func incompatible(have, want jetstream.StreamConfig) error {
	var errs []error
	check := func(ok bool, name string, have, want any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s is %v, it must be %v", name, have, want))
		}
	}
	check(slices.Equal(have.Subjects, want.Subjects), "subjects", have.Subjects, want.Subjects)
	check(have.Storage == want.Storage, "storage", have.Storage, want.Storage)
	check(have.Retention == want.Retention, "retention", have.Retention, want.Retention)
	check(have.Discard == want.Discard, "discard", have.Discard, want.Discard)
	check(have.MaxAge == 0, "max_age", have.MaxAge, 0)
	check(have.MaxMsgs <= 0, "max_msgs", have.MaxMsgs, -1)
	check(have.MaxMsgsPerSubject <= 0, "max_msgs_per_subject", have.MaxMsgsPerSubject, -1)
	check(have.MaxMsgSize <= 0, "max_msg_size", have.MaxMsgSize, -1)
	check(have.Mirror == nil && len(have.Sources) == 0, "mirror or sources", "set", "none")
	check(have.SubjectTransform == nil, "subject_transform", have.SubjectTransform, "none")
	check(!have.NoAck, "no_ack", have.NoAck, false)
	check(!have.Sealed, "sealed", have.Sealed, false)
	return errors.Join(errs...)
}
