// Package conf has the configuration of a dispatcher: its settings, what it takes from its
// host, and the hooks by which it tells of what it does.
package conf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/dedup"
	"github.com/streamwright/streamwright/dispatcher/door"
	"github.com/streamwright/streamwright/dispatcher/schedules"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/turns"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
)

// Defaults of Config.
const (
	DefaultMaxRunning = 10_000
	DefaultHeartbeat  = 20 * time.Second
	DefaultGone       = 60 * time.Second // time without a heartbeat
	DefaultSweep      = 60 * time.Second
	DefaultSyncWithin = 2 * time.Minute // a NATS server's sync_interval by default
	AloneSyncWithin   = 5 * time.Second // for the embedded server, which syncs every second or every write

	DefaultProbeInterval = 60 * time.Second
	DefaultProbeTimeout  = 5 * time.Second
	DefaultProbeFailures = 2

	DefaultCutEvents = 1_000_000 // the least that the log holds before it is cut
)

// Lease lets one engine of several try to own the partition. It is about liveness alone: the
// log decides who may append.
type Lease interface {
	// Take takes the lease, or keeps it. If another engine has it, Take returns that one's
	// name. An error means that the lease can't be asked for.
	Take(ctx context.Context) (by string, err error)
	// Changed receives something when the lease may be free.
	Changed() <-chan struct{}
	// Failed hears that this engine could not take the partition over, or serve it; final
	// says that it will not try again. It may give the lease up, so that another engine
	// can try: then Take fails with ErrPassed for a time.
	Failed(why error, final bool)
}

// ErrPassed is the error of a lease that this engine has given up for a time, since it could
// not take over.
var ErrPassed = errors.New("this engine leaves the log to others for a time, since it could not take over")

// Config configures a Dispatcher.
type Config struct {
	// Log is the partition's event stream. Only the Dispatcher appends to it; it does not close
	// it.
	Log eventlog.Log
	// Store is the projection of that log. Only the Dispatcher commits to it; it does not close
	// it.
	Store *projector.Store
	// Conn serves everything but appends: intake, items for workers, advisories, control.
	Conn *nats.Conn
	// MaxPayload is what the server takes a message, in bytes, which bounds the log's
	// frames. 0: what Conn's says, or 8 MiB without one.
	MaxPayload int64

	Names     wire.Names
	Partition int
	Owner     string // names this process in owned events
	Version   string
	Replicas  int      // replicas of the streams with primary data that the Dispatcher makes
	Placement []string // tags of the servers that hold the streams; none: any
	Several   bool     // the streams are on a cluster of servers
	// FormatLevel is the highest format level of the log that the engine reads, and
	// writes once the log is raised to it: see core.RaiseFormat. 0: events.FormatLevel.
	FormatLevel int
	// Alone says that no other engine can append to the log: the data folder is locked and
	// the server embedded. Then an answer that appends nothing needs no confirmation from
	// the stream's leader.
	Alone bool
	// Door, if set, maps subjects of the server's account: plain publishes are then decided
	// at once. It needs Alone, and has no effect beside a dedup hook, which takes its time.
	Door door.Mapping
	// DoorLate has the door open only behind the first plain publish of an ownership.
	DoorLate bool
	// Heard reports whether anybody subscribes to a subject of the live feed; nil: it is not
	// known, and all events are told.
	Heard func(subject string) bool
	// Lease, if set, says whether this engine tries to own the partition; while another has
	// it, the engine stands by. nil: no other engine can reach the log, or none is heeded.
	Lease Lease
	// Registered, if set, lists the workers that an earlier owner knew, so that a new one
	// need not wait for their next heartbeats.
	Registered func(context.Context) ([]wire.WorkerInfo, error)
	// MemoryOnly keeps the intake stream in memory too.
	MemoryOnly bool
	// Sites names the sites at the edge whose streams are read: see [wire.Names.SiteStream].
	Sites []string
	// IntakeMaxBytes bounds the intake stream; at the bound publishers get the
	// server's error. 0: 1 GiB.
	IntakeMaxBytes int64

	// Defaults are the settings of types when they are first seen.
	Defaults events.TypeSettings
	// Limits are the engine's own: on all queues together, on the pools, and on the circuit
	// of workers.
	Limits events.Limits
	// FileDefaults applies the settings that engine.toml has for all types to the settings
	// of a type that nobody has configured through the API; differences are recorded at
	// start. nil: the file sets none. Defaults already includes them.
	FileDefaults func(events.TypeSettings) events.TypeSettings
	// FileTypes apply the settings that engine.toml has for a type to those of the log (or
	// Defaults); differences are recorded at start.
	FileTypes map[events.Type]func(events.TypeSettings) events.TypeSettings
	// FileSchedules are the schedules of engine.toml. Differences from the log are recorded
	// at start, and schedules that the file no longer has are removed.
	FileSchedules []events.Schedule
	// FileNamespaces are the namespaces of engine.toml, for the owner of the default
	// namespace's log. Differences from the log are recorded at start. Namespaces that the
	// file no longer has stay, with their data; from then on the API may change them.
	FileNamespaces []events.NamespaceInfo
	// MaxParams is the largest params that any type takes, in bytes; it bounds
	// the messages of the intake stream. 0: the default bound.
	MaxParams int
	// Children reads the children of a large spawn from the object that a report referred
	// to. An *events.Error other than CodeUnavailable says that they are lost. nil: there
	// is no object store.
	Children func(ctx context.Context, ref string) ([]core.Submit, error)
	// Turns is the namespace's share of the processors; nil: it gives way to nobody in particular.
	Turns *turns.Share
	// MaxRunning bounds the items dispatched or running, over all types.
	MaxRunning int
	Heartbeat  time.Duration // longest time between two heartbeats of a worker
	Gone       time.Duration // a worker silent for this long is dead
	Sweep      time.Duration // between two sweeps
	// Workers that offer a probe are probed every ProbeInterval and must answer within
	// ProbeTimeout, which must be shorter. A worker that fails ProbeFailures times in a row
	// is unhealthy until it answers well.
	ProbeInterval time.Duration
	ProbeTimeout  time.Duration
	ProbeFailures int
	// SyncWithin is the time after its acknowledgement by which an event is surely on disk:
	// the server's sync interval, and a little. 0: AloneSyncWithin with Alone, else
	// DefaultSyncWithin. Answered intake messages are purged no sooner, so the intake must
	// have room for what is published in twice that time.
	SyncWithin time.Duration

	// Dedup says when the host's dedup hook is asked.
	Dedup dedup.Config
	// Score, if set, replaces the built-in order for the types of ScoreTypes (none: all).
	// It returns how far ahead of its submission time an item is placed, whatever its
	// priority. It is called concurrently, before the submission reaches the loop, and must
	// be quick. Spawned items have no score: their place is that of their creation.
	Score      func(core.Submit) time.Duration
	ScoreTypes []events.Type
	// MaxClockJump is the most that the NATS server's clock may be ahead of the last event
	// and the last known time and still be followed without confirmation, if nobody has
	// measured how long ago that was; else it is clock.MaxAhead. 0: clock.DefaultMaxJump;
	// negative: any server time is followed.
	MaxClockJump time.Duration
	// ClockSynced returns the time of this machine's clock, and whether it is known to be
	// synchronised; nil: the machine can't tell. A server's clock that agrees with a
	// synchronised one is followed over any distance.
	ClockSynced func() (time.Time, bool)
	// Suspended, if set, returns how long this machine has been suspended since some fixed
	// moment.
	Suspended func() time.Duration
	// KnownTime, if set, returns when an earlier process last found the server's clock
	// plausible, zero if that is not known; or, if it has measured the time since, what time
	// it must be now. NoteTime, if set, is given the time now and then, to keep it for the
	// next process.
	KnownTime func() (at time.Time, measured bool)
	NoteTime  func(time.Time)
	// CutEvents is the least number of events that the log holds before it is cut; the log
	// may also grow to four events for each retained item. 0: DefaultCutEvents.
	CutEvents int

	Hooks Hooks
	// Traceparent, if set, returns the traceparent of a dispatch; if it returns "", the
	// dispatch carries its submission's. It is called from the loop and must not block.
	Traceparent func(*events.Item, events.Token) string
	Logger      *slog.Logger
}

// Scores reports whether the host orders the items of a type.
func (c *Config) Scores(t events.Type) bool {
	return c.Score != nil && (len(c.ScoreTypes) == 0 || slices.Contains(c.ScoreTypes, t))
}

// Rate gives a submission the host's score.
func (c *Config) Rate(s *core.Submit) {
	if c.Scores(s.Type) && s.Score == nil {
		score := c.Score(*s)
		s.Score = &score
	}
}

// The reasons passed to Hooks.WorkerFailed.
const (
	WorkerSilent = "heartbeat"
	WorkerProbe  = "probe"
)

// Hooks are called when the engine does something. All may be nil. They are called from the
// engine's goroutines and must not block them.
type Hooks struct {
	// Appended is called for each durable batch.
	Appended func(events int, bytes int, took time.Duration)
	// Projected is called for each batch, in order, once queries see it.
	Projected func(*core.Changes)
	// Awaited reports whether somebody waits for what a batch has changed; then it is
	// projected without delay. It must not wait.
	Awaited func(*core.Changes) bool
	// Dispatched is called for each item that is given to a worker, or pushed to the dispatch
	// stream.
	Dispatched func(events.Type)
	// Owned is called when the engine has become the partition's owner, and Lost when it no
	// longer is (with nil if it stops).
	Owned func(events.Epoch)
	Lost  func(error)
	// StandingBy is called when the engine begins to stand by, and when the owner for which
	// it does is another.
	StandingBy func(owner string)
	// Renewed is called when the projection was made anew because the log had been cut in
	// front of it: Projected has a gap there.
	Renewed func(events.Seq)
	// LeaseExpired is called for each lease that ran out.
	LeaseExpired func(events.Type)
	// Returned is called for each item that is taken back before it has started, to be
	// dispatched again; why is one of wire.Recoveries.
	Returned func(t events.Type, why string)
	// WorkerFailed is called for each worker that was silent for too long (WorkerSilent),
	// and for each probe without a good answer (WorkerProbe).
	WorkerFailed func(reason string)
	// Workers is called with the whole registry when it has changed.
	Workers func([]wire.WorkerInfo)
}

// WithDefaults returns c with defaults for the fields that are not set.
func (c Config) WithDefaults() Config {
	if c.Names.Prefix == "" {
		c.Names = wire.Default
	}
	if c.Owner == "" {
		c.Owner = "engine"
	}
	if c.FormatLevel == 0 {
		c.FormatLevel = events.FormatLevel
	}
	if c.MaxPayload == 0 && c.Conn != nil {
		c.MaxPayload = c.Conn.MaxPayload()
	}
	if c.MaxPayload == 0 {
		c.MaxPayload = 8 << 20
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

// Validate returns everything that is wrong, joined.
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
	errs = append(errs, schedules.CheckFile(c.FileSchedules)...)
	return errors.Join(append(errs, c.checkNamespaces()...)...)
}

// checkNamespaces returns what is wrong with the namespaces of engine.toml.
func (c *Config) checkNamespaces() (errs []error) {
	if n := len(c.FileNamespaces); n > events.MaxNamespaces {
		errs = append(errs, fmt.Errorf("dispatcher: the file sets %d namespaces: at most %d", n, events.MaxNamespaces))
	}
	if len(c.FileNamespaces) > 0 && c.Names.Namespace(events.DefaultNamespace) != c.Names {
		errs = append(errs, fmt.Errorf("dispatcher: the log of %s has no list of namespaces: only that of the namespace %s has", c.Names.Prefix, events.DefaultNamespace))
	}
	for _, n := range c.FileNamespaces {
		n.Source = events.SourceFile
		if err := n.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("dispatcher: %w", err))
		}
	}
	return errs
}

func (c Config) withProbes() Config {
	c.ProbeInterval = cmp.Or(c.ProbeInterval, DefaultProbeInterval)
	c.ProbeTimeout = cmp.Or(c.ProbeTimeout, DefaultProbeTimeout)
	c.ProbeFailures = cmp.Or(c.ProbeFailures, DefaultProbeFailures)
	return c
}

// FromFile returns the commands that record the settings of engine.toml where
// they differ from the log's.
func (c *Config) FromFile(state *core.State) (cmds []core.Command) {
	types := slices.Collect(maps.Keys(c.FileTypes))
	if c.FileDefaults != nil {
		types = append(types, state.TypeNames()...)
	}
	slices.Sort(types)
	for _, t := range slices.Compact(types) {
		was, _ := state.Settings(t)
		info, known := state.Type(t)
		set, source := was, info.Source
		if c.FileDefaults != nil && source != events.SourceAPI {
			set = c.FileDefaults(set)
		}
		if lay := c.FileTypes[t]; lay != nil {
			set = lay(set)
			if source != events.SourceAPI { // otherwise the file's defaults would undo the API's settings at the next start
				source = events.SourceFile
			}
		}
		if !known || !reflect.DeepEqual(set, was) {
			cmds = append(cmds, core.Configure{Type: t, Source: source, Settings: set})
		}
	}
	return cmds
}
