package dispatcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/schedules"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/events/eventlog"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of the loop's queues.
const (
	MaxRequests    = 1024 // requests waiting to be decided
	MaxUnprojected = 256  // batches appended and not yet projected
	maxReplies     = 64   // batches whose replies are not sent yet
)

// Defaults of Config.
const (
	DefaultMaxRunning = 10_000
	DefaultHeartbeat  = 20 * time.Second
	DefaultGone       = 60 * time.Second // without a heartbeat
	DefaultSweep      = 60 * time.Second
	DefaultSyncWithin = 2 * time.Minute // a NATS server's sync_interval by default
	AloneSyncWithin   = 5 * time.Second // of the embedded server, which syncs each second or each write

	DefaultProbeInterval = 60 * time.Second
	DefaultProbeTimeout  = 5 * time.Second
	DefaultProbeFailures = 2
)

// Config is what an Engine is made of.
type Config struct {
	// Log is the partition's event stream. The Engine is the only one to append
	// to it through this value; it does not close it.
	Log eventlog.Log
	// Store is the projection of that log. The Engine is the only one to commit
	// to it; it does not close it.
	Store *projector.Store
	// Conn is for everything but appends: intake, dispatch, advisories, control.
	Conn *nats.Conn

	Names     wire.Names
	Partition int
	Owner     string // this process, in owned events
	Version   string
	Replicas  int // of the streams that the Engine makes
	// Alone says that no other engine can append to the log (the data folder is
	// locked and the server embedded), so that an answer which appends nothing
	// needs no confirmation from the stream's leader.
	Alone bool
	// MayOwn, if set, is asked before the partition is taken over again; its error
	// ends the engine. nil: it always may.
	MayOwn func(context.Context) error
	// MemoryOnly keeps the intake stream in memory too.
	MemoryOnly bool
	// IntakeMaxBytes bounds the intake stream; at the bound publishers get the
	// server's error. 0: 1 GiB.
	IntakeMaxBytes int64

	// Defaults are the settings of types that are first seen.
	Defaults events.TypeSettings
	// Limits are the engine's own: of all queues together, the pools, the circuit
	// of workers.
	Limits events.Limits
	// FileDefaults lays the settings that engine.toml sets for all types over those
	// of a type that nobody has configured through the API; what differs is recorded
	// at start. nil: the file sets none. Defaults has them already.
	FileDefaults func(events.TypeSettings) events.TypeSettings
	// FileTypes lay the settings that engine.toml sets for a type over those that
	// the log has for it (or Defaults); what differs is recorded at start.
	FileTypes map[events.Type]func(events.TypeSettings) events.TypeSettings
	// FileSchedules are those of engine.toml: what differs from the log is
	// recorded at start, and those that the file had and has no more are removed.
	FileSchedules []events.Schedule
	// MaxParams is the largest params that any type takes, in bytes; it bounds
	// the messages of the intake stream. 0: the default bound.
	MaxParams int
	// Children reads the children of a large spawn from the object that a report
	// referred to; an *events.Error other than CodeUnavailable says that they can't
	// be had. nil: there is no object store.
	Children func(ctx context.Context, ref string) ([]core.Submit, error)
	// MaxRunning bounds the items dispatched or running, over all types.
	MaxRunning int
	Heartbeat  time.Duration // between two heartbeats of a worker, at most
	Gone       time.Duration // a worker silent for so long is dead
	Sweep      time.Duration // how often what a lost signal missed is looked for
	// Workers that offer a probe are asked each ProbeInterval and have
	// ProbeTimeout, which must be shorter, to answer. One that fails
	// ProbeFailures times in a row is unhealthy until it answers well.
	ProbeInterval time.Duration
	ProbeTimeout  time.Duration
	ProbeFailures int
	// SyncWithin is how long after its acknowledgement an event is surely on
	// disk: the server's sync interval, and a little. 0: AloneSyncWithin with
	// Alone, else DefaultSyncWithin. Answered intake messages are purged no sooner, so the intake must
	// have room for what is published in twice that time.
	SyncWithin time.Duration

	// Dedup says when a host's dedup hook is asked.
	Dedup DedupConfig
	// Score, if set, replaces the built-in order for the types of ScoreTypes
	// (none: all): how far ahead of its time of submission an item's place is,
	// whatever its priority. It is called by several goroutines, before the
	// submission reaches the loop, and must be quick. Spawned items have no
	// score: their place is that of their creation.
	Score      func(core.Submit) time.Duration
	ScoreTypes []events.Type
	// MaxClockJump is how far the NATS server's clock may lie ahead of the last
	// event and the last known time and still be followed by itself. 0:
	// DefaultMaxClockJump; negative: any time of the server is followed.
	MaxClockJump time.Duration
	// ClockSynced, if set, returns the time of this machine's clock, and whether
	// that is known to be synchronised: a server's clock that agrees with it is
	// followed over any distance.
	ClockSynced func() (time.Time, bool)
	// Suspended, if set, returns for how long this machine has been suspended since
	// some moment.
	Suspended func() time.Duration
	// KnownTime, if set, returns when the server's clock was last plausible to an
	// earlier process, zero if that is not known. NoteTime, if set, is given that
	// time now and then, to keep it for the next.
	KnownTime func() time.Time
	NoteTime  func(time.Time)
	// CutEvents is how many events the log holds at least before it is cut; it
	// is also let grow to four for each retained item. 0: DefaultCutEvents.
	CutEvents int

	Hooks Hooks
	// Traceparent is what a dispatch carries in place of the traceparent of its
	// submission; nil, or empty: that. It is called from the loop and must not block.
	Traceparent func(*events.Item, events.Token) string
	Logger      *slog.Logger
}

// scores reports whether the host orders the items of a type.
func (c *Config) scores(t events.Type) bool {
	return c.Score != nil && (len(c.ScoreTypes) == 0 || slices.Contains(c.ScoreTypes, t))
}

// score gives a submission the host's score.
func (c *Config) score(s *core.Submit) {
	if c.scores(s.Type) && s.Score == nil {
		score := c.Score(*s)
		s.Score = &score
	}
}

// Why Hooks.WorkerFailed is called.
const (
	WorkerSilent = "heartbeat"
	WorkerProbe  = "probe"
)

// Hooks are told what the engine does. All may be nil. They are called from
// the engine's goroutines and must not hold them up.
type Hooks struct {
	// Appended is called for each durable batch.
	Appended func(events int, bytes int, took time.Duration)
	// Projected is called, in order, for each batch once queries see it.
	Projected func(*core.Changes)
	// Awaited reports whether somebody waits for what a batch has changed: then
	// it is projected without delay. It must not wait.
	Awaited func(*core.Changes) bool
	// Dispatched is called for each item pushed to a run subject.
	Dispatched func(events.Type)
	// Owned is called when the engine has become the partition's owner, and
	// Lost when it no longer is (nil: it stops).
	Owned func(events.Epoch)
	Lost  func(error)
	// Renewed is called when the projection was made anew, since the log had been
	// cut in front of it: what Projected tells has a gap there.
	Renewed func(events.Seq)
	// LeaseExpired is called for each lease that ran out.
	LeaseExpired func(events.Type)
	// Returned is called for each dispatch that nobody has claimed and that is
	// taken back to be dispatched again; why is one of wire.Recoveries.
	Returned func(t events.Type, why string)
	// WorkerFailed is called for each worker that has been silent for too long
	// (WorkerSilent), and each probe without a good answer (WorkerProbe).
	WorkerFailed func(reason string)
	// Workers is called when the registry has changed, with all of it.
	Workers func([]wire.WorkerInfo)
}

// WithDefaults fills in what is not set.
func (c Config) WithDefaults() Config {
	if c.Names.Prefix == "" {
		c.Names = wire.Default
	}
	if c.Owner == "" {
		c.Owner = "engine"
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.IntakeMaxBytes == 0 {
		c.IntakeMaxBytes = 1 << 30
	}
	if c.Defaults.Capacity == 0 {
		c.Defaults = events.DefaultTypeSettings()
	}
	if c.MaxParams == 0 {
		c.MaxParams = events.MaxParamsBytes
	}
	if c.MaxRunning == 0 {
		c.MaxRunning = DefaultMaxRunning
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = DefaultHeartbeat
	}
	if c.Gone == 0 {
		c.Gone = DefaultGone
	}
	if c.Sweep == 0 {
		c.Sweep = DefaultSweep
	}
	c = c.withProbes()
	if c.SyncWithin == 0 {
		c.SyncWithin = DefaultSyncWithin
		if c.Alone {
			c.SyncWithin = AloneSyncWithin
		}
	}
	c.Dedup = c.Dedup.WithDefaults()
	if c.CutEvents == 0 {
		c.CutEvents = DefaultCutEvents
	}
	if c.MaxClockJump == 0 {
		c.MaxClockJump = clock.DefaultMaxJump
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate reports everything that is wrong, joined.
func (c Config) Validate() error {
	var errs []error
	if c.Log == nil || c.Store == nil || c.Conn == nil {
		errs = append(errs, errors.New("dispatcher: Log, Store and Conn must be set"))
	}
	if c.MaxRunning < 1 {
		errs = append(errs, errors.New("dispatcher: max_running must be at least 1"))
	}
	if c.Heartbeat < 0 || c.Gone < 0 || c.Sweep < 0 || c.SyncWithin < 0 {
		errs = append(errs, errors.New("dispatcher: Heartbeat, Gone, Sweep and SyncWithin must not be negative"))
	}
	if c.ProbeInterval < 0 || c.ProbeTimeout < 0 || c.ProbeTimeout >= c.ProbeInterval || c.ProbeFailures < 1 {
		errs = append(errs, errors.New("dispatcher: ProbeTimeout must be shorter than ProbeInterval, and ProbeFailures at least 1"))
	}
	errs = append(errs, c.Dedup.Validate())
	if c.CutEvents < 1 {
		errs = append(errs, errors.New("dispatcher: CutEvents must be at least 1"))
	}
	if err := c.Defaults.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("dispatcher: default settings: %w", err))
	}
	if err := errors.Join(c.Limits.WorkerCircuit.ValidateWorker(), c.Limits.Validate()); err != nil {
		errs = append(errs, fmt.Errorf("dispatcher: limits: %w", err))
	}
	if n := len(c.FileTypes); n > events.MaxTypes {
		errs = append(errs, fmt.Errorf("dispatcher: the file sets %d types: at most %d", n, events.MaxTypes))
	}
	for _, t := range slices.Sorted(maps.Keys(c.FileTypes)) {
		if _, err := events.ParseType(string(t)); err != nil {
			errs = append(errs, fmt.Errorf("dispatcher: %w", err))
		}
		if err := c.FileTypes[t](c.Defaults).Validate(); err != nil {
			errs = append(errs, fmt.Errorf("dispatcher: settings of type %s: %w", t, err))
		}
	}
	return errors.Join(append(errs, schedules.CheckFile(c.FileSchedules)...)...)
}

func (c Config) withProbes() Config {
	c.ProbeInterval = cmp.Or(c.ProbeInterval, DefaultProbeInterval)
	c.ProbeTimeout = cmp.Or(c.ProbeTimeout, DefaultProbeTimeout)
	c.ProbeFailures = cmp.Or(c.ProbeFailures, DefaultProbeFailures)
	return c
}
