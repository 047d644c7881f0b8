package natsio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/directget"
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
	MemoryOnly     bool     // also keep in memory the streams that are kept in files
	IntakeMaxBytes int64    // of the intake stream
	MaxRunning     int      // most items dispatched or running
	Door           bool     // the intake stream also takes what the door for plain publishes gives it

	// Answered returns the intake position that the log answers, Read the last intake
	// message that this process has read, and Epoch the epoch of the ownership.
	Answered, Read, Epoch func() uint64
	// AcksLost is called, without a lock, when the dispatch stream turns out to be a
	// different one than last seen.
	AcksLost func()
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

	acks ackTopology

	mu     sync.Mutex // guards what follows
	intake bool       // the intake stream has been there
	owing  bool       // the intake stream is not yet fit to be read: see TakeOver
}

// NewTopology returns a Topology. It makes nothing on the server yet.
func NewTopology(cfg Config) *Topology {
	t := &Topology{cfg: cfg, js: cfg.JS, log: cfg.Logger}
	t.acks.ready, t.acks.lost = make(chan struct{}), cfg.AcksLost
	return t
}

// lookIntake bounds a new owner's look at the intake stream.
const lookIntake = 200 * time.Millisecond

// TakeOver makes the intake stream at the beginning of an ownership. On several servers, an
// intake stream that there must be, and that nobody leads, is left to EnsureIntake: servers
// that have just lost one choose the stream's leader on its own, perhaps seconds after the
// log's, and the owner does not wait for that.
func (t *Topology) TakeOver(ctx context.Context) error {
	t.mu.Lock()
	t.owing = true
	t.mu.Unlock()
	if !t.cfg.Several || t.cfg.Epoch() <= 1 {
		return t.EnsureStreams(ctx)
	}
	one, cancel := context.WithTimeout(ctx, lookIntake)
	defer cancel()
	err := t.EnsureStreams(one)
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
	return t.EnsureStreams(ctx)
}

// streamOffline is the server's code for a stream whose servers are all down.
const streamOffline = 10118

// isOffline reports whether an error says, or lets expect, that no server leads a stream.
func isOffline(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode == streamOffline
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errUnsettled)
}

// errUnsettled: what is known of a stream may be from before its leader has led.
var errUnsettled = errors.New("the stream has had no leader for long enough to be believed")

// settled reports whether a stream's state is that of a leader which has led for newLeader.
// Any server answers for a stream without a leader, and may lack its last messages; a leader's
// first answer may be from just before it became one.
func settled(info *jetstream.StreamInfo) bool {
	c := info.Cluster
	return c == nil || len(c.Replicas) == 0 || c.LeaderSince != nil && info.TimeStamp.Sub(*c.LeaderSince) >= newLeader
}

const newLeader = time.Second

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

// EnsureStreams makes the intake stream if it does not exist, and updates its settings. Its
// sequences must continue after those that the log answers: a stream that is new, or has
// lost its end in a power loss, would give the same numbers to other messages, and those
// would count as answered.
func (t *Topology) EnsureStreams(ctx context.Context) error {
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
		if info := s.CachedInfo(); !settled(info) { // the purge below would take what it lacks just now
			return fmt.Errorf("stream %s ends at message %d, and the log has answered %d: %w", cfg.Name, state.LastSeq, answered, errUnsettled)
		}
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

// OpenIntake follows the intake stream after a message.
func (t *Topology) OpenIntake(ctx context.Context, after uint64) (*connect.Feed, error) {
	n := t.cfg.Names
	return connect.OpenFeed(ctx, t.js, n, connect.FeedConfig{
		Stream: n.IntakeStream(), Filters: []string{n.Intake(t.cfg.Partition, "*")}, FromSeq: after + 1,
		Messages: maxPulled, Bytes: maxPullBytes / 2, // per request; two are open at once
	})
}

// IntakeWhole checks that the intake stream has nothing between two of its messages. The replica
// that a consumer reads may have lost what the stream's leader has: then it returns an error that
// wraps [connect.ErrFeedLost].
func (t *Topology) IntakeWhole(ctx context.Context, after, found uint64) error {
	n := t.cfg.Names
	ctx, cancel := context.WithTimeout(ctx, directget.Timeout)
	defer cancel()
	m, err := directget.FromLeader(ctx, t.js.Conn(), n.JetStream("STREAM.MSG.GET."+n.IntakeStream()), directget.Request{Seq: after + 1, NextFor: n.Intake(t.cfg.Partition, "*")})
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound): // they have been purged since
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w: %w", n.IntakeStream(), connect.ErrFeedLost, err)
	case m.Seq < found:
		return fmt.Errorf("read %s: %w: a replica goes on with message %d, and lacks %d", n.IntakeStream(), connect.ErrFeedLost, found, m.Seq)
	}
	return nil
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

// AckMsgs returns the messages of the dispatch stream, in order, and the last sequence that
// it has given out. If wanted is set, it makes the stream if it does not exist; otherwise
// there is false then.
func (t *Topology) AckMsgs(ctx context.Context, wanted bool) (msgs []AckMsg, last uint64, there bool, err error) {
	s, err := t.js.Stream(ctx, t.cfg.Names.DispatchStream())
	if errors.Is(err, jetstream.ErrStreamNotFound) && !wanted {
		return nil, 0, false, nil
	}
	if err == nil || wanted {
		s, err = t.EnsureAckStreams(ctx)
	}
	if err != nil {
		return nil, 0, false, err
	}
	msgs, err = scanAcks(ctx, t.cfg.Conn, s, t.cfg.Names)
	return msgs, s.CachedInfo().State.LastSeq, true, err
}
