package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// topology makes the streams and consumers that are not the log's, and makes
// them anew when somebody has deleted them.
type topology struct {
	js   jetstream.JetStream
	cfg  *Config
	mu   sync.Mutex
	made time.Time // the dispatch stream's creation, as last seen
	// lost is called, without the lock, when the dispatch stream turned out to
	// be another than the one last seen.
	lost func()
}

// maxPending is a consumer's MaxAckPending: past 1,024 pending the server may
// notice an expired lease 100 ms late.
const maxPending = 1000

// ensureStreams makes the intake, dispatch and lease streams if they are not
// there.
func (t *topology) ensureStreams(ctx context.Context) error {
	n := t.cfg.Names
	intake := jetstream.StreamConfig{
		Name: n.IntakeStream(), Subjects: []string{n.SubmitAll()}, Replicas: t.cfg.Replicas,
		SubjectTransform: &jetstream.SubjectTransformConfig{
			Source: n.SubmitAll(), Destination: n.Intake(t.cfg.Partition, "{{wildcard(1)}}"),
		},
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		MaxBytes: t.cfg.IntakeMaxBytes, MaxMsgSize: int32(intakeMaxMsg(t.cfg)), Duplicates: events.MsgIDWindow,
		AllowDirect: true,
	}
	leases := jetstream.StreamConfig{
		Name: n.LeaseStream(), Subjects: []string{n.LeaseAdvisories()}, Replicas: t.cfg.Replicas,
		Storage: jetstream.MemoryStorage, MaxAge: 10 * time.Minute, MaxMsgs: 100_000, Discard: jetstream.DiscardOld,
	}
	if t.cfg.MemoryOnly {
		intake.Storage = jetstream.MemoryStorage
	}
	for _, c := range []jetstream.StreamConfig{intake, leases} {
		if _, err := t.js.CreateOrUpdateStream(ctx, c); err != nil {
			return fmt.Errorf("make stream %s: %w", c.Name, err)
		}
	}
	return t.ensureDispatch(ctx)
}

// intakeMaxMsg bounds a submission: the largest params, and its headers.
func intakeMaxMsg(c *Config) int {
	return max(c.MaxParams, c.Defaults.MaxParams) + 64<<10
}

// ensureDispatch makes the dispatch stream if it is not there. Each life of it
// numbers its messages from another place, so that an ack from an earlier life
// hits nothing.
func (t *topology) ensureDispatch(ctx context.Context) error {
	name := t.cfg.Names.DispatchStream()
	s, err := t.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = t.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: name, Subjects: []string{t.cfg.Names.RunAll()}, Storage: jetstream.MemoryStorage, Replicas: t.cfg.Replicas,
			Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, MaxMsgs: int64(2*t.cfg.MaxRunning + maxPending),
			FirstSeq: uint64(time.Now().UnixMicro()), AllowDirect: true,
		})
	}
	if err != nil {
		return fmt.Errorf("make stream %s: %w", name, err)
	}
	created := s.CachedInfo().Created
	t.mu.Lock()
	another := !t.made.IsZero() && !t.made.Equal(created)
	t.made = created
	t.mu.Unlock()
	if another && t.lost != nil {
		t.lost()
	}
	return nil
}

// ensureConsumer makes the consumer of a lane, with the type's lease.
func (t *topology) ensureConsumer(ctx context.Context, typ events.Type, lane string, lease time.Duration) (string, error) {
	cfg := jetstream.ConsumerConfig{
		Durable: wire.Consumer(typ, lane), FilterSubject: t.cfg.Names.Run(typ, lane),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: lease, MaxDeliver: 1, MaxAckPending: maxPending,
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
