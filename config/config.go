package config

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
)

// Config is all that engine.toml can say.
type Config struct {
	Server  Server
	HTTP    HTTP
	NATS    NATS
	Leaf    Leaf
	Cluster Cluster
	Connect connect.Settings // how the NATS of Server.NATSURL is reached
	// ExecConnect is the login there of the workers of types with exec; zero:
	// the engine's.
	ExecConnect connect.Settings
	Limits      Limits
	Retention   Retention
	Workers     Workers
	Metrics     Metrics
	// WorkerCircuit is laid over the built-in circuit of workers; it has the names
	// of [worker_circuit].
	WorkerCircuit Patch
	// Defaults are laid over the built-in settings for every type.
	Defaults Patch
	Types    map[events.Type]Type
	// DedupHook is asked about submissions, if it has a subject.
	DedupHook DedupHook
	Pools     map[string]Pool
	// Quotas bound what each user may ask, by role and by name.
	Quotas quota.Settings
	// Schedules holds the schedules that the file owns, by name.
	Schedules map[string]Schedule
	// Namespaces holds the namespaces that the file owns, by name.
	Namespaces map[events.Namespace]Namespace
}

// Server says where and how the engine runs. Flags of the command line override
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
	// LogTransitions says which transitions of items are logged: off, sampled, all.
	LogTransitions string
	// MaxClockJump is the farthest that the NATS server's clock may lie ahead of the
	// time the engine last knew and still be followed without an operator; negative:
	// no limit.
	MaxClockJump time.Duration
	// Weight is that of the default namespace's share of the processors: 1 to events.MaxWeight.
	Weight int
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
	OutputMaxBytes int64 // of all items' outputs together
	OutputItem     int   // bytes of the output of one run
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

// Metrics bounds what is measured.
type Metrics struct {
	TypeHistograms int // types with histograms of their own
}

// Retention says how long the log grows before it is cut.
type Retention struct {
	CutEvents int // that it holds at least before it is cut
}

// Type holds what the file sets for one type.
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

// Off is the value of NATSListen and HTTP that disables them.
const Off = "off"

// Pool is slots that the types which name it share.
type Pool struct{ Slots int }

// DedupHook says whom to ask, over NATS, whether a submission is the same as
// another.
type DedupHook struct {
	Subject      string // empty: nobody is asked
	Types        []string
	Timeout      time.Duration
	Fallback     string // key, distinct
	Candidates   int
	KeySeparator string
}

// HTTP says who may use the HTTP server, and how it is reached.
type HTTP struct {
	TokensFile string
	TLSCert    string // PEM files; with both, HTTPS
	TLSKey     string
	ClientCA   string // whose client certificates are accepted
	Clients    []HTTPClient
	Hosts      []string // names beside localhost by which an open engine may be asked
	AllowOpen  bool     // listen beyond this machine although everyone may do everything
}

// HTTPClient is a client certificate that is known, by one of its names.
type HTTPClient struct {
	Name  string
	Roles access.Memberships
}

// NATS says who may use the embedded NATS server, and how it is reached.
type NATS struct {
	TLSCert   string
	TLSKey    string
	ClientCA  string // whose certificates clients must show, beside their login
	Users     []NATSUser
	AllowOpen bool // listen beyond this machine although there are no users
}

// NATSUser is a user of the embedded NATS server. Exactly one of Password,
// PasswordFile and Nkey is set.
type NATSUser struct {
	Name         string
	Password     string // in clear, or as a bcrypt hash
	PasswordFile string // its first line is the password
	Nkey         string // public, beginning with U
	Roles        access.Memberships
	NoDocuments  bool // without the object store of large params and results
	NoPublish    bool // without plain publishes, which no quota counts
}

// Bounds of lists and names; the bounds of types are in package events.
const (
	MaxHTTPClients = 1000
	MaxHTTPHosts   = 100
	MaxNATSUsers   = 1000
	MinPasswordLen = 12
	MaxExecArgs    = 256
	MaxExecEnv     = 256
	MaxPrefixLen   = 32
	DefaultGrace   = 10 * time.Second
)

// The times of heartbeats, each fitted to the other: see fit.
const (
	defaultHeartbeat    = 20 * time.Second
	minHeartbeat        = 100 * time.Millisecond
	defaultDeadAfter    = time.Minute
	maxDeadAfter        = time.Hour
	minHeartbeatsMissed = 2 // heartbeats that fit into DeadAfter at least, so that one may be lost
)

// Default is the configuration of an empty file.
func Default() Config { return Config{}.WithDefaults() }

// WithDefaults returns c with every field that is zero set to its default.
// Settings of types stay as they are: absence means something there.
func (c Config) WithDefaults() Config {
	c.Workers.fit(c.Workers.HeartbeatInterval != 0, c.Workers.DeadAfter != 0)
	withDefaults(c.fields())
	types := make(map[events.Type]Type, len(c.Types))
	for name, t := range c.Types {
		if t.Exec != nil {
			e := *t.Exec
			withDefaults(e.fields())
			t.Exec = &e
		}
		types[name] = t
	}
	c.Types = types
	return c
}

// fit sets the heartbeat interval, the silence after which a worker is dead, or both,
// where the user has not. If one is set, the other is made to fit: three heartbeats to
// a silence.
func (w *Workers) fit(beatSet, deadSet bool) {
	if !beatSet {
		w.HeartbeatInterval = defaultHeartbeat
		if deadSet {
			w.HeartbeatInterval = max(min(defaultHeartbeat, w.DeadAfter/3).Truncate(time.Millisecond), minHeartbeat)
		}
	}
	if !deadSet {
		w.DeadAfter = min(max(defaultDeadAfter, 3*w.HeartbeatInterval), maxDeadAfter)
	}
}

// TypeDefaults returns the settings of a type that nobody has configured.
func (c Config) TypeDefaults() events.TypeSettings {
	return c.Defaults.Apply(events.ProtectedTypeSettings())
}

// Settings returns the settings of a type that only the file has configured: the
// settings in its table, laid over the defaults.
func (c Config) Settings(t events.Type) events.TypeSettings {
	return c.Types[t].Patch.Apply(c.TypeDefaults())
}

// WorkerCircuitSettings returns [worker_circuit] laid over the defaults.
func (c Config) WorkerCircuitSettings() events.CircuitSettings {
	s := events.TypeSettings{Circuit: events.DefaultWorkerCircuit()}
	lay(workerCircuitSettings, c.WorkerCircuit, &s)
	return s.Circuit
}

// EngineLimits returns the limits that decisions look at.
func (c Config) EngineLimits() events.Limits {
	l := events.Limits{MaxQueued: c.Limits.MaxQueued, QueueSteps: c.Limits.QueueSteps, Pools: make(map[string]events.Pool, len(c.Pools)), WorkerCircuit: c.WorkerCircuitSettings(), StartTimeout: c.Workers.StartTimeout}
	if len(c.Limits.Types) > 0 {
		l.Types = make(map[events.Type]bool, len(c.Limits.Types)+len(c.Types))
		for _, t := range c.Limits.Types {
			l.Types[events.Type(t)] = true
		}
		for t := range c.Types {
			l.Types[t] = true
		}
	}
	for name, p := range c.Pools {
		l.Pools[name] = events.Pool{Slots: p.Slots}
	}
	return l
}

// ExecConnection returns the connection settings for the workers of types with exec.
// own are the engine's, with their context already read; ok is false if those workers
// have no login of their own.
func (c Config) ExecConnection(own connect.Settings) (s connect.Settings, ok bool) {
	if c.ExecConnect == (connect.Settings{}) {
		return own, false
	}
	return connect.Merge(c.ExecConnect, own.WithoutLogin()), true
}

// External reports whether the engine uses an existing NATS.
func (c Config) External() bool { return c.Server.NATSURL != "" || c.Connect.Context != "" }

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
