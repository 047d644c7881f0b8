package natsio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of the intake messages on their way from the server.
const (
	maxPulled    = 1000
	maxPullBytes = 16 << 20
)

// Config says how to reach the server, and how its streams are configured.
type Config struct {
	Conn   *nats.Conn
	JS     jetstream.JetStream // of Conn
	Names  wire.Names
	Logger *slog.Logger

	Partition      int
	Replicas       int      // of the streams with primary data
	Placement      []string // tags of the servers that hold the streams
	Several        bool     // the streams are on a cluster of servers
	Node           string   // whose server holds the streams in memory; empty: any
	MemoryOnly     bool     // also keep in memory the streams that are kept in files
	IntakeMaxBytes int64    // of the intake stream
	MaxRunning     int      // most items dispatched or running
	Door           bool     // the intake stream also takes what the door for plain publishes gives it

	// Answered returns the intake position that the log answers, Read the last intake
	// message that this process has read, and Epoch the epoch of the ownership.
	Answered, Read, Epoch func() uint64
	// DispatchLost and AckLost are called, without a lock, when the dispatch stream, or
	// that of native workers, turns out to be a different one than last seen.
	DispatchLost, AckLost func()
	// Traceparent, if set, returns the traceparent of a dispatch; if it returns "", the
	// dispatch carries its item's. It must not block.
	Traceparent func(*events.Item, events.Token) string
}

// Topology makes the streams and consumers that are not the log's, and makes
// them anew when somebody has deleted them. Safe for concurrent use.
type Topology struct {
	cfg Config
	js  jetstream.JetStream
	log *slog.Logger

	native nativeTopology

	making sync.Mutex // held while the dispatch stream is looked at
	// dropping is locked while an unneeded consumer is removed, so that a worker that has
	// just come for it does not lose it; making a consumer takes the read lock.
	dropping sync.RWMutex
	mu       sync.Mutex // guards what follows
	intake   bool       // the intake stream has been there
	owing    bool       // the intake stream is not yet fit to be read: see TakeOver
	// dispatch is a handle of the dispatch stream as last seen. It works by name, so it
	// also serves a stream that replaces that one. life is that stream's.
	dispatch jetstream.Stream
	life     wire.Life
	own      bool // dispatch is of this ownership
	// strange is since when the dispatch stream has been of a life that this ownership did
	// not make; zero if it is not.
	strange time.Time
}

// NewTopology returns a Topology. It makes nothing on the server yet.
func NewTopology(cfg Config) *Topology {
	t := &Topology{cfg: cfg, js: cfg.JS, log: cfg.Logger}
	t.native.ready, t.native.lost = make(chan struct{}), cfg.AckLost
	return t
}

// dispatchStream returns the handle of the dispatch stream, nil before EnsureStreams.
func (t *Topology) dispatchStream() jetstream.Stream {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dispatch
}

// Life returns the life of the dispatch stream as last seen.
func (t *Topology) Life() wire.Life {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.life
}

// has reports whether the dispatch stream was there in this ownership.
func (t *Topology) has() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.own
}

// EnsureStreams makes the intake, dispatch and lease streams if they don't exist.
func (t *Topology) EnsureStreams(ctx context.Context) error {
	if err := t.ensureIntake(ctx); err != nil {
		return err
	}
	return t.ensureVolatiles(ctx)
}

// lookIntake bounds a new owner's look at the intake stream.
const lookIntake = 200 * time.Millisecond

// TakeOver is EnsureStreams at the beginning of an ownership: on several servers, what is in
// memory is made anew. Servers that have just lost one choose the intake stream's leader on its
// own, perhaps seconds after the log's. The owner does not wait for that: EnsureIntake does,
// before the stream is read.
func (t *Topology) TakeOver(ctx context.Context) error {
	t.mu.Lock()
	t.own, t.owing, t.strange = false, true, time.Time{}
	t.mu.Unlock()
	if err := t.takeIntake(ctx); err != nil {
		return err
	}
	return t.ensureVolatiles(ctx)
}

// takeIntake leaves an intake stream that there must be, and that nobody leads, to EnsureIntake.
func (t *Topology) takeIntake(ctx context.Context) error {
	if !t.cfg.Several || t.cfg.Epoch() <= 1 {
		return t.ensureIntake(ctx)
	}
	one, cancel := context.WithTimeout(ctx, lookIntake)
	defer cancel()
	err := t.ensureIntake(one)
	if isOffline(err) && ctx.Err() == nil {
		t.log.Info("the intake stream does not answer yet: it is read later", "error", err)
		return nil
	}
	return err
}

// EnsureIntake makes the intake stream fit to be read by the present owner, unless that has
// been done.
func (t *Topology) EnsureIntake(ctx context.Context) error {
	t.mu.Lock()
	owing := t.owing
	t.mu.Unlock()
	if !owing {
		return nil
	}
	return t.ensureIntake(ctx)
}

// ensureVolatiles makes the lease and dispatch streams if they don't exist.
func (t *Topology) ensureVolatiles(ctx context.Context) error {
	n := t.cfg.Names
	leases := func() jetstream.StreamConfig {
		return jetstream.StreamConfig{
			Name: n.LeaseStream(), Subjects: []string{n.LeaseAdvisories()},
			MaxAge: 10 * time.Minute, MaxMsgs: 100_000, Discard: jetstream.DiscardOld, Duplicates: MinDuplicates,
		}
	}
	own := t.has()
	var both errgroup.Group // a stream on a dead server takes its time
	both.Go(func() error { _, _, err := t.ensureVolatile(ctx, n.LeaseStream(), leases, own); return err })
	both.Go(func() error { return t.ensureDispatch(ctx) })
	return both.Wait()
}

// MinDuplicates is the shortest duplicate window that the server allows. The server holds
// each message id in memory for that long.
const MinDuplicates = 100 * time.Millisecond

// MaxIntakeMsg bounds a submission: the largest params that a type may allow,
// and headers. What is over its type's bound is rejected on record.
const MaxIntakeMsg = events.MaxParamsCeiling + 64<<10

// intakeLife returns where a new life of the intake stream begins: after every sequence
// that an earlier life can have given out. A sequence is the handle of a publish, and must
// never name two. Unanswered messages are still in a stream when it ends, and it holds
// fewer messages than bytes. Where that fails (somebody has purged the stream, or a power
// loss has also taken the end of the log), the time is ahead of anyone who publishes less
// than one message each microsecond. Both stay far below 2^53, as JSON readers need.
func (t *Topology) intakeLife() uint64 {
	return max(max(t.cfg.Answered(), t.cfg.Read())+uint64(t.cfg.IntakeMaxBytes)+1, uint64(time.Now().UnixMicro()))
}

// newIntake returns where an intake stream that does not exist begins: at 1 if there has
// never been one for this log, which then has had no owner but this one.
func (t *Topology) newIntake() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.intake && t.cfg.Answered() == 0 && t.cfg.Epoch() <= 1 {
		return 1
	}
	return t.intakeLife()
}

// intakeSubjects returns what the intake stream listens to: with a door, also to what that
// gives it, in the stored form.
func (t *Topology) intakeSubjects() []string {
	n := t.cfg.Names
	if !t.cfg.Door {
		return []string{n.SubmitAll()}
	}
	return []string{n.SubmitAll(), n.Intake(t.cfg.Partition, "*")}
}

// ensureIntake makes the intake stream if it does not exist, and updates its settings. Its
// sequences must continue after those that the log answers: a stream that is new, or has
// lost its end in a power loss, would give the same numbers to other messages, and those
// would count as answered.
func (t *Topology) ensureIntake(ctx context.Context) error {
	n := t.cfg.Names
	cfg := jetstream.StreamConfig{
		Name: n.IntakeStream(), Subjects: t.intakeSubjects(), Replicas: t.cfg.Replicas, Placement: connect.Placement(t.cfg.Placement),
		SubjectTransform: &jetstream.SubjectTransformConfig{
			Source: n.SubmitAll(), Destination: n.Intake(t.cfg.Partition, "{{wildcard(1)}}"),
		},
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		MaxBytes: t.cfg.IntakeMaxBytes, MaxMsgSize: MaxIntakeMsg, Duplicates: MinDuplicates,
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
		if have := s.CachedInfo().Config; have.MaxBytes != cfg.MaxBytes || have.MaxMsgSize != cfg.MaxMsgSize || have.Duplicates != cfg.Duplicates || have.Replicas != max(cfg.Replicas, 1) || have.Compression != cfg.Compression || !slices.Equal(have.Subjects, cfg.Subjects) {
			cfg.FirstSeq, cfg.Placement = have.FirstSeq, have.Placement
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
	if answered := t.cfg.Answered(); state.LastSeq < answered {
		first := t.intakeLife()
		t.log.Warn("the intake ends before what the log has answered: moving it past that", "intake", state.LastSeq, "answered", answered, "to", first)
		if err := s.Purge(ctx, jetstream.WithPurgeSequence(first)); err != nil {
			return fmt.Errorf("move stream %s to message %d: %w", cfg.Name, first, err)
		}
	}
	t.mu.Lock()
	t.owing = false
	t.mu.Unlock()
	return nil
}

// ensureDispatch makes the dispatch stream if it does not exist. Each life of it numbers
// its messages from another place, so that an ack from an earlier life hits nothing, and on
// several servers has names of its own.
func (t *Topology) ensureDispatch(ctx context.Context) error {
	t.making.Lock()
	defer t.making.Unlock()
	had := t.has()
	s, made, err := t.ensureVolatile(ctx, t.cfg.Names.DispatchStream(), t.newDispatch, had)
	if err == nil && had && !made && t.cfg.Several && lifeOf(s) != t.Life() {
		if !t.strangeFor(strangeLife) {
			return nil
		}
		t.log.Warn("another engine has replaced the dispatch stream: making it anew")
		s, err = t.replaceVolatile(ctx, t.cfg.Names.DispatchStream(), t.newDispatch)
	}
	if err != nil {
		return err
	}
	t.mu.Lock()
	another := t.dispatch != nil && !t.dispatch.CachedInfo().Created.Equal(s.CachedInfo().Created)
	t.dispatch, t.life, t.own, t.strange = s, lifeOf(s), true, time.Time{}
	t.mu.Unlock()
	if another {
		t.cfg.DispatchLost()
	}
	if another && had && t.cfg.Several {
		t.callWorkers() // the consumers have other names now
	}
	return nil
}

// strangeLife is how long a dispatch stream of a life that this ownership did not make is
// left alone. Either a server that was cut off has answered, which still has an earlier
// life; or this engine is the owner no more, which it learns within the time of a lease; or
// an engine that lost the contest for the log was the last to make the stream.
const strangeLife = 4 * time.Second

// strangeFor notes that a strange life has answered, and reports whether none but strange
// ones have for d.
func (t *Topology) strangeFor(d time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.strange.IsZero() {
		t.strange = time.Now()
	}
	return time.Since(t.strange) >= d
}

// newDispatch returns the configuration of a new life of the dispatch stream.
func (t *Topology) newDispatch() jetstream.StreamConfig {
	first := time.Now().UnixMicro()
	var life wire.Life
	if t.cfg.Several {
		life = wire.Life(strconv.FormatInt(first, 36))
	}
	return jetstream.StreamConfig{
		Name: t.cfg.Names.DispatchStream(), Subjects: []string{life.RunAll(t.cfg.Names)},
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, MaxMsgs: int64(2*t.cfg.MaxRunning + lanes.MaxPending),
		FirstSeq: uint64(first), AllowDirect: true, MaxConsumers: lanes.MaxConsumers, Duplicates: MinDuplicates,
	}
}

// lifeOf reads the life of a dispatch stream from its subject.
func lifeOf(s jetstream.Stream) wire.Life {
	for _, subject := range s.CachedInfo().Config.Subjects {
		if _, of, ok := strings.Cut(subject, "._"); ok {
			return wire.Life(strings.TrimSuffix(of, ".>"))
		}
	}
	return ""
}

// callWorkers asks all workers to register: those that the owner does not know yet, and
// whose heartbeats may be far, and those that know consumers of an earlier life. It is a
// hint.
func (t *Topology) callWorkers() {
	data, err := json.Marshal(wire.Control{Register: true})
	if err == nil {
		err = t.cfg.Conn.Publish(t.cfg.Names.ControlAll(), data)
	}
	if err != nil {
		t.log.Warn("the workers could not be called: their heartbeats will tell of them", "error", err)
	}
}

// EnsureConsumer makes the consumer of a lane, with the type's lease.
func (t *Topology) EnsureConsumer(ctx context.Context, typ events.Type, lane string, lease time.Duration) (string, error) {
	t.dropping.RLock()
	defer t.dropping.RUnlock()
	name, err := t.makeConsumer(ctx, typ, lane, lease)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = t.ensureDispatch(ctx); err == nil {
			name, err = t.makeConsumer(ctx, typ, lane, lease)
		}
	}
	if err != nil {
		return "", fmt.Errorf("make the consumer of type %s: %w", typ, err)
	}
	return name, nil
}

func (t *Topology) makeConsumer(ctx context.Context, typ events.Type, lane string, lease time.Duration) (string, error) {
	life := t.Life()
	name := life.Consumer(typ, lane)
	_, err := t.js.CreateOrUpdateConsumer(ctx, t.cfg.Names.DispatchStream(), jetstream.ConsumerConfig{
		Durable: name, FilterSubject: life.Run(t.cfg.Names, typ, lane),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: lease, MaxDeliver: 1, MaxAckPending: lanes.MaxPending,
		MaxWaiting: 2048, MemoryStorage: true,
	})
	return name, err
}

// OpenIntake follows the intake stream after a message.
func (t *Topology) OpenIntake(ctx context.Context, after uint64) (*connect.Feed, error) {
	n := t.cfg.Names
	return connect.OpenFeed(ctx, t.js, n, connect.FeedConfig{
		Stream: n.IntakeStream(), Filters: []string{n.Intake(t.cfg.Partition, "*")}, FromSeq: after + 1,
		Messages: maxPulled, Bytes: maxPullBytes / 2, // per request; two are open at once
	})
}

// OpenSite follows the stream of a site after a message, over the site's leaf connection.
// It fails at once if the site is not connected.
func (t *Topology) OpenSite(ctx context.Context, site string, after uint64) (*connect.Feed, error) {
	n := t.cfg.Names.Site(site)
	js, err := connect.JetStream(t.cfg.Conn, n)
	if err != nil {
		return nil, err
	}
	return connect.OpenFeed(ctx, js, n, connect.FeedConfig{Stream: n.SiteStream(site), FromSeq: after + 1, Messages: maxPulled, Bytes: maxPullBytes / 2})
}

// AdoptDispatched calls keep for each message of the dispatch stream, with the zero token
// for one that is not the engine's, and deletes the messages for which keep returns false.
func (t *Topology) AdoptDispatched(ctx context.Context, keep func(seq uint64, id events.ID, token events.Token, lease time.Duration) bool) error {
	var drop []uint64
	kept := 0
	s := t.dispatchStream()
	err := scanDispatched(ctx, t.cfg.Conn, s, t.cfg.Names, func(seq uint64, id events.ID, token events.Token, lease time.Duration) error {
		if keep(seq, id, token, lease) {
			kept++
		} else {
			drop = append(drop, seq)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if kept == 0 && len(drop) > 0 {
		err = s.Purge(ctx, jetstream.WithPurgeSequence(drop[len(drop)-1]+1))
	} else {
		err = deleteMsgs(ctx, s, drop)
	}
	if err != nil {
		return fmt.Errorf("delete spent messages: %w", err)
	}
	return nil
}

// AckMsgs returns the messages of the native stream, in order, and the last sequence that
// it has given out. If wanted is set, it makes the stream if it does not exist; otherwise
// there is false then.
func (t *Topology) AckMsgs(ctx context.Context, wanted bool) (msgs []AckMsg, last uint64, there bool, err error) {
	s, err := t.js.Stream(ctx, t.cfg.Names.NativeStream())
	if errors.Is(err, jetstream.ErrStreamNotFound) && !wanted {
		return nil, 0, false, nil
	}
	if err == nil || wanted {
		s, err = t.EnsureAckStreams(ctx)
	}
	if err != nil {
		return nil, 0, false, err
	}
	msgs, err = scanNatives(ctx, t.cfg.Conn, s, t.cfg.Names)
	return msgs, s.CachedInfo().State.LastSeq, true, err
}
