package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// topology makes the streams and consumers that are not the log's, and makes
// them anew when somebody has deleted them.
type topology struct {
	js  jetstream.JetStream
	cfg *Config
	log *slog.Logger
	// answered is the intake position that the log answers.
	answered func() uint64
	// read is the last intake message that this process has read, and epoch that
	// of the ownership.
	read, epoch func() uint64
	// lost is called, without the lock, when the dispatch stream turned out to
	// be another than the one last seen.
	lost func()

	native nativeTopology

	making sync.Mutex // held while the dispatch stream is looked at
	mu     sync.Mutex // guards dispatch and intake
	intake bool       // the intake stream has been there
	// dispatch is a handle of the dispatch stream as last seen. It goes by the
	// name, so that it serves the next one too.
	dispatch jetstream.Stream
}

// dispatchStream is nil before ensureStreams.
func (t *topology) dispatchStream() jetstream.Stream {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dispatch
}

// ensureStreams makes the intake, dispatch and lease streams if they are not
// there.
func (t *topology) ensureStreams(ctx context.Context) error {
	if err := t.ensureIntake(ctx); err != nil {
		return err
	}
	n := t.cfg.Names
	leases := jetstream.StreamConfig{
		Name: n.LeaseStream(), Subjects: []string{n.LeaseAdvisories()}, Replicas: t.cfg.Replicas,
		Storage: jetstream.MemoryStorage, MaxAge: 10 * time.Minute, MaxMsgs: 100_000, Discard: jetstream.DiscardOld, Duplicates: minDuplicates,
	}
	if _, err := t.js.CreateOrUpdateStream(ctx, leases); err != nil {
		return fmt.Errorf("make stream %s: %w", leases.Name, err)
	}
	return t.ensureDispatch(ctx)
}

// minDuplicates is the least duplicate window that the server allows. It holds
// each message id in memory for that long, whatever its size.
const minDuplicates = 100 * time.Millisecond

// maxIntakeMsg bounds a submission: the largest params that a type may allow,
// and headers. What is over its type's bound is rejected on record.
const maxIntakeMsg = events.MaxParamsCeiling + 64<<10

// intakeLife is where a new life of the intake stream begins: behind every
// sequence that an earlier one can have given out, since a sequence is the handle
// of a publish, and must never name two. What has not been answered is still in
// the stream when that ends, which holds fewer messages than bytes; and where
// that is not so (somebody has purged it, or a power loss has taken the end of
// the log too), the time is ahead of whoever publishes less than a message each
// microsecond. Both stay far below 2^53, which JSON's readers need.
func (t *topology) intakeLife() uint64 {
	return max(max(t.answered(), t.read())+uint64(t.cfg.IntakeMaxBytes)+1, uint64(time.Now().UnixMicro()))
}

// newIntake is where an intake stream that is not there begins: with 1 if there
// has never been one for this log, which then has no owner yet but this.
func (t *topology) newIntake() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.intake && t.answered() == 0 && t.epoch() <= 1 {
		return 1
	}
	return t.intakeLife()
}

// ensureIntake makes the intake stream if it is not there, and brings its
// settings up to date. Its sequences must go on behind what the log answers: a
// stream that is new, or has lost its end in a power loss, would number other
// messages like those, and they would count as answered.
func (t *topology) ensureIntake(ctx context.Context) error {
	n := t.cfg.Names
	cfg := jetstream.StreamConfig{
		Name: n.IntakeStream(), Subjects: []string{n.SubmitAll()}, Replicas: t.cfg.Replicas,
		SubjectTransform: &jetstream.SubjectTransformConfig{
			Source: n.SubmitAll(), Destination: n.Intake(t.cfg.Partition, "{{wildcard(1)}}"),
		},
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		MaxBytes: t.cfg.IntakeMaxBytes, MaxMsgSize: maxIntakeMsg, Duplicates: minDuplicates,
		AllowDirect: true,
	}
	if t.cfg.MemoryOnly {
		cfg.Storage = jetstream.MemoryStorage
	}
	s, err := t.js.Stream(ctx, cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		cfg.FirstSeq = t.newIntake()
		if s, err = t.js.CreateStream(ctx, cfg); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			s, err = t.js.Stream(ctx, cfg.Name) // a sweep has just made it
		}
	} else if err == nil {
		if have := s.CachedInfo().Config; have.MaxBytes != cfg.MaxBytes || have.MaxMsgSize != cfg.MaxMsgSize || have.Duplicates != cfg.Duplicates {
			cfg.FirstSeq = have.FirstSeq
			s, err = t.js.UpdateStream(ctx, cfg)
		}
	}
	if err != nil {
		return fmt.Errorf("make stream %s: %w", cfg.Name, err)
	}
	t.mu.Lock()
	t.intake = true
	t.mu.Unlock()
	state := s.CachedInfo().State
	if answered := t.answered(); state.LastSeq < answered {
		first := t.intakeLife()
		t.log.Warn("the intake ends before what the log has answered: moving it past that", "intake", state.LastSeq, "answered", answered, "to", first)
		if err := s.Purge(ctx, jetstream.WithPurgeSequence(first)); err != nil {
			return fmt.Errorf("move stream %s to message %d: %w", cfg.Name, first, err)
		}
	}
	return nil
}

// ensureDispatch makes the dispatch stream if it is not there. Each life of it
// numbers its messages from another place, so that an ack from an earlier life
// hits nothing.
func (t *topology) ensureDispatch(ctx context.Context) error {
	t.making.Lock()
	defer t.making.Unlock()
	name := t.cfg.Names.DispatchStream()
	s, err := t.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = t.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: name, Subjects: []string{t.cfg.Names.RunAll()}, Storage: jetstream.MemoryStorage, Replicas: t.cfg.Replicas,
			Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, MaxMsgs: int64(2*t.cfg.MaxRunning + lanes.MaxPending),
			FirstSeq: uint64(time.Now().UnixMicro()), AllowDirect: true, MaxConsumers: lanes.MaxConsumers, Duplicates: minDuplicates,
		})
	}
	if err != nil {
		return fmt.Errorf("make stream %s: %w", name, err)
	}
	t.mu.Lock()
	another := t.dispatch != nil && !t.dispatch.CachedInfo().Created.Equal(s.CachedInfo().Created)
	t.dispatch = s
	t.mu.Unlock()
	if another {
		t.lost()
	}
	return nil
}

// ensureConsumer makes the consumer of a lane, with the type's lease.
func (t *topology) ensureConsumer(ctx context.Context, typ events.Type, lane string, lease time.Duration) (string, error) {
	cfg := jetstream.ConsumerConfig{
		Durable: wire.Consumer(typ, lane), FilterSubject: t.cfg.Names.Run(typ, lane),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: lease, MaxDeliver: 1, MaxAckPending: lanes.MaxPending,
		MaxWaiting: 2048, MemoryStorage: true,
	}
	_, err := t.js.CreateOrUpdateConsumer(ctx, t.cfg.Names.DispatchStream(), cfg)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = t.ensureDispatch(ctx); err == nil {
			_, err = t.js.CreateOrUpdateConsumer(ctx, t.cfg.Names.DispatchStream(), cfg)
		}
	}
	if err != nil {
		return "", fmt.Errorf("make the consumer of type %s: %w", typ, err)
	}
	return cfg.Durable, nil
}
