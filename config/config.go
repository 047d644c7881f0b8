package config

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
)

// Config is all that engine.toml can say.
type Config struct {
	Server  Server
	HTTP    HTTP
	NATS    NATS
	Connect connect.Settings // how the NATS of Server.NATSURL is reached
	// ExecConnect is the login there of the workers of types with exec; zero:
	// the engine's.
	ExecConnect connect.Settings
	Limits      Limits
	Retention   Retention
	Workers     Workers
	// WorkerCircuit is laid over the built-in circuit of workers.
	WorkerCircuit CircuitPatch
	// Defaults are laid over the built-in settings for every type.
	Defaults Patch
	Types    map[events.Type]Type
	// DedupHook is asked about submissions, if it has a subject.
	DedupHook DedupHook
	Pools     map[string]Pool
	// Quotas bound what each user may ask, by role and by name.
	Quotas quota.Settings
	// Schedules are those that the file owns, by name.
	Schedules map[string]Schedule
}

// Server is where and how the engine runs. Flags of the command line override
// it.
type Server struct {
	Dir        string // the data folder
	NATSListen string // host:port of the embedded server, or "off"
	HTTP       string // host:port of the HTTP API, /healthz, /readyz and /metrics, or "off"
	PProf      string // host:port of the profiler, on this machine alone, or "off"
	Durability Durability
	NATSURL    string // an existing NATS to use instead of embedding one
	Prefix     string // of all subjects; streams have it in capitals
	LogLevel   string // debug, info, warn, error
	LogFormat  string // text, json
	// MaxClockJump is how far the NATS server's clock may lie ahead of what the
	// engine last knew and be followed by itself; negative: however far.
	MaxClockJump time.Duration
	// NoDedupBucket leaves out the KV bucket of taken dedup keys.
	NoDedupBucket bool
}

// Limits bound the engine as a whole.
type Limits struct {
	MaxRunning     int   // items dispatched or running, over all types
	MaxStoreBytes  int64 // of the embedded JetStream on disk; 0: what the disk allows
	MaxMemoryBytes int64 // of the embedded JetStream's memory streams
	MinFreeBytes   int64 // free disk space below which submit requests are refused
	LogMaxAge      time.Duration
	LogMaxBytes    int64 // of all items' logs together
	MaxQueued      int   // items queued or waiting, over all types; 0: no limit
	QueueSteps     []events.QueueStep
	Types          []string // that may be submitted; none: any
	BlobMaxBytes   int64    // of the object store of large params and results
}

// Workers says what the engine expects of workers, and how long it waits.
type Workers struct {
	HeartbeatInterval time.Duration // between two heartbeats of a worker, at most
	DeadAfter         time.Duration // a worker silent for so long is dead
	StartTimeout      time.Duration // from a claim without a start to the start
	SweepInterval     time.Duration // between two looks for what a lost signal missed

	ProbeInterval time.Duration // between two probes of a worker
	ProbeTimeout  time.Duration // to answer one; less than the interval
	ProbeFailures int           // in a row, that make a worker unhealthy
}

// Retention is how long the log grows before it is cut.
type Retention struct {
	CutEvents int // that it holds at least before it is cut
}

// Type is what the file says of one type.
type Type struct {
	Patch Patch
	Exec  *Exec // nil: no worker in the engine's own process
}

// Exec is a command that the engine itself runs for the items of a type.
type Exec struct {
	Command      []string // program and arguments
	Concurrency  int      // children at once; 0: the type's capacity
	Capabilities []string
	Env          []string      // of the children, beside what any program needs: NAME of the engine's own, or NAME=value
	Grace        time.Duration // between the request to stop and the kill
}

// Durability says when an acknowledged write is on disk.
type Durability string

// The durabilities: always syncs before each acknowledgement and survives a
// power loss; interval syncs every second and survives a killed process.
const (
	Always   Durability = "always"
	Interval Durability = "interval"
)

// Off is what NATSListen and HTTP say to be left out.
const Off = "off"

// Default bounds and values; those of types are in package events.
const (
	DefaultMaxRunning = 10_000
	MaxMaxRunning     = events.MaxTypes * events.MaxCapacity
	DefaultCutEvents  = 1_000_000
	MinCutEvents      = 1000
	MaxCutEvents      = 1_000_000_000
	DefaultGrace      = 10 * time.Second
	MaxGrace          = 10 * time.Minute
	MaxExecArgs       = 256
	MaxExecEnv        = 256
	MaxPrefixLen      = 32

	DefaultMaxClockJump = 24 * time.Hour // as clock.DefaultMaxJump of the dispatcher
	MinMaxClockJump     = time.Minute
	MaxMaxClockJump     = 10 * 365 * 24 * time.Hour

	DefaultHeartbeatInterval = 20 * time.Second
	MinHeartbeatInterval     = 100 * time.Millisecond
	MaxHeartbeatInterval     = 10 * time.Minute
	DefaultDeadAfter         = time.Minute
	MinDeadAfter             = 300 * time.Millisecond
	MaxDeadAfter             = time.Hour
	MinHeartbeatsMissed      = 2 // heartbeats that fit into DeadAfter at least, so that one may be lost
	DefaultSweepInterval     = time.Minute
	MinSweepInterval         = time.Second
	MaxSweepInterval         = time.Hour

	DefaultProbeInterval = time.Minute
	MinProbeInterval     = 100 * time.Millisecond
	MaxProbeInterval     = time.Hour
	DefaultProbeTimeout  = 5 * time.Second
	MinProbeTimeout      = 10 * time.Millisecond
	DefaultProbeFailures = 2
	MaxProbeFailures     = 100
)

// Default is the configuration of an empty file.
func Default() Config { return Config{}.WithDefaults() }

// WithDefaults returns c with every field that is zero set to its default.
// Settings of types stay as they are: absence means something there.
func (c Config) WithDefaults() Config {
	or(&c.Server.Dir, "data")
	or(&c.Server.NATSListen, "127.0.0.1:4222")
	or(&c.Server.HTTP, "127.0.0.1:8484")
	or(&c.Server.PProf, Off)
	or(&c.Server.Durability, Always)
	or(&c.Server.Prefix, "work")
	or(&c.Server.LogLevel, "info")
	or(&c.Server.LogFormat, "text")
	or(&c.Server.MaxClockJump, DefaultMaxClockJump)
	or(&c.Limits.MaxRunning, DefaultMaxRunning)
	or(&c.Limits.MaxMemoryBytes, 1<<30)
	or(&c.Limits.MinFreeBytes, 256<<20)
	or(&c.Limits.LogMaxAge, 7*24*time.Hour)
	or(&c.Limits.LogMaxBytes, 1<<30)
	or(&c.Limits.BlobMaxBytes, 4<<30)
	c.Workers.withDefaults()
	c.DedupHook.withDefaults()
	or(&c.Retention.CutEvents, DefaultCutEvents)
	types := make(map[events.Type]Type, len(c.Types))
	for name, t := range c.Types {
		if t.Exec != nil {
			e := *t.Exec
			or(&e.Grace, DefaultGrace)
			t.Exec = &e
		}
		types[name] = t
	}
	c.Types = types
	if c.Schedules == nil {
		c.Schedules = map[string]Schedule{}
	}
	return c
}

// withDefaults fills in what is not set.
func (w *Workers) withDefaults() {
	w.fit(w.HeartbeatInterval != 0, w.DeadAfter != 0)
	or(&w.StartTimeout, events.StartWithin)
	or(&w.SweepInterval, DefaultSweepInterval)
	or(&w.ProbeInterval, DefaultProbeInterval)
	or(&w.ProbeTimeout, DefaultProbeTimeout)
	or(&w.ProbeFailures, DefaultProbeFailures)
}

// fit sets the heartbeat and the silence as far as they are not set by the user.
// Who sets one of them gets the other to fit: three heartbeats to a silence.
func (w *Workers) fit(beatSet, deadSet bool) {
	if !beatSet {
		w.HeartbeatInterval = DefaultHeartbeatInterval
		if deadSet {
			w.HeartbeatInterval = max(min(DefaultHeartbeatInterval, w.DeadAfter/3).Truncate(time.Millisecond), MinHeartbeatInterval)
		}
	}
	if !deadSet {
		w.DeadAfter = min(max(DefaultDeadAfter, 3*w.HeartbeatInterval), MaxDeadAfter)
	}
}

func or[T comparable](p *T, def T) {
	var zero T
	if *p == zero {
		*p = def
	}
}

// TypeDefaults are the settings of a type that nobody has configured.
func (c Config) TypeDefaults() events.TypeSettings {
	return c.Defaults.Apply(events.ProtectedTypeSettings())
}

// Settings are those of a type as far as the file says: what it names for the
// type, over the defaults.
func (c Config) Settings(t events.Type) events.TypeSettings {
	return c.Types[t].Patch.Apply(c.TypeDefaults())
}

// TypeNames lists the types that the file names, sorted.
func (c Config) TypeNames() []events.Type { return slices.Sorted(maps.Keys(c.Types)) }

// Level is LogLevel as slog has it; info if it can't be read.
func (s Server) Level() slog.Level {
	var l slog.Level
	if l.UnmarshalText([]byte(s.LogLevel)) != nil {
		return slog.LevelInfo
	}
	return l
}
