package api

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// Core is the part of *dispatcher.Dispatcher that the service needs.
type Core interface {
	Do(ctx context.Context, cmds []core.Command, done func([]dispatcher.Outcome)) error
	Report(ctx context.Context, reports []command.Report, done func([]wire.Reported)) error
	Register(ctx context.Context, r wire.Register) (wire.Registered, error)
	Heartbeat(ctx context.Context, h wire.Heartbeat) (wire.HeartbeatReply, error)
	Probed(wire.Probed)
	Offer(ctx context.Context, o wire.Offer) error
	Unregister(ctx context.Context, u wire.Unregister) error
	Drain(ctx context.Context, d wire.Drain, by string) (dispatcher.Outcome, error)
	Undrain(ctx context.Context, d wire.Undrain, by string) (dispatcher.Outcome, error)
	Drains() []wire.DrainMark
	Workers() []wire.WorkerInfo
	Why(ctx context.Context, id events.ID) (wire.WhyReply, error)
	Places(ctx context.Context, ids []events.ID) ([]dispatcher.Place, error)
	Loads(ctx context.Context) (map[events.Type]dispatcher.Load, error)
	Runs(ctx context.Context) (map[events.WorkerID]int, error)
	// StandsBy reports whether another engine owns the log, and how well this one
	// follows it.
	StandsBy() (dispatcher.Standing, bool)
	// End returns the last position that is durable now, on a standby as the log's
	// leader says.
	End(ctx context.Context) (events.Seq, error)
	Position() events.Seq
	// Events returns the number of durable events, up to about Position.
	Events() uint64
	Epoch() events.Epoch
	Now() time.Time
	NewID() events.ID
	Await(ctx context.Context, seq events.Seq) error
	Retention(ctx context.Context) (dispatcher.RetentionStatus, error)
	Cut(ctx context.Context, past events.Seq) (dispatcher.RetentionStatus, error)
	Clock() (dispatcher.ClockStatus, bool)
	AcceptClock(ctx context.Context, by string) (dispatcher.ClockStatus, error)
}

// Queries is the part of the projection that the service needs; a *projector.Store
// together with a query.Reader of it provides it.
type Queries interface {
	Meta() (events.Meta, error)
	Types() ([]events.TypeInfo, error)
	Records(events.RecordKind) ([]events.Record, error)
	Item(events.ID) (*events.Item, error)
	Full(events.ID) (wire.Item, bool, error)
	// Asked returns an item, nil if there is none, with the last question that it has asked, nil
	// for none, and its mailbox.
	Asked(events.ID) (*events.Item, *events.Question, *events.Mailbox, error)
	Approvals(q wire.Approvals, who events.Answerer, all bool) (wire.ApprovalsReply, error)
	ByIntake(seq uint64) (events.ID, bool, error)
	List(wire.List) (wire.Listed, error)
	Children(of, behind events.ID, limit int) ([]events.ID, error)
	History(events.ID) ([]wire.HistoryEvent, error)
	ItemAt(id events.ID, through events.Seq, until time.Time) (wire.Item, bool, error)
	Dead(wire.Selection) (wire.Listed, error)
	Select(wire.Selection, ...events.ItemState) (wire.Listed, error)
	DedupHolder(events.Type, string) (*events.Item, error)
	Causes(wire.CausesQuery) (wire.CausesReply, error)
	Rejected(wire.ListRejected) (wire.RejectedListed, error)
	RejectedOf(events.Seq) (wire.Rejected, bool, error)
	Answer(intake uint64) (events.Seq, events.ID, bool, error)
	Applied() events.Seq
	EachQueued(begin func(events.Seq), count func(t events.Type, p events.Priority, place int64) error) error
	EachAwaiting(begin func(events.Seq), count func(it *events.Item) error) error
	OldestWaiting(t events.Type, now time.Time) (oldest [int(events.MaxPriority) + 1]time.Time, exact bool, err error)
}

// Prover replays the log to prove or replace the projection.
type Prover interface {
	Verify(ctx context.Context, progress projector.Progress) (projector.Verified, error)
	Rebuild(ctx context.Context, progress projector.Progress) error
	// AsOf calls fn with the projection as of a moment; see [projector.Store.AsOf].
	AsOf(ctx context.Context, through events.Seq, until time.Time, progress projector.Progress, fn func(*projector.Store) error) error
}

// engine holds what nearly every request needs: the loop, the projection, and a way to wait
// until the projection shows what the loop has made durable.
type engine struct {
	Config
	js    jetstream.JetStream
	ctx   context.Context // ends with Stop
	ahead chan struct{}   // a token for each request for a position that is not known yet
	// aheadWithin bounds how long such a request waits.
	aheadWithin time.Duration
}
