package config

import (
	"fmt"
	"strconv"

	"github.com/streamwright/streamwright/events"
)

// field is one key of a table: how it is read, and what the documentation
// says of it. Exactly one of set and table is given.
type field struct {
	key   string
	kind  string // of value, for people
	def   string // default, for people
	doc   string
	set   func(v any) error
	table func(key string) ([]field, error) // of the tables below, by their key
	each  string                            // with table: the keys below are names of this
	name  string                            // with each: what stands for one in the documentation; empty: N
	get   func() any                        // what is set now; nil where [NeedsRestart] looks elsewhere
}

func (s *Server) fields() []field {
	return []field{
		text("dir", &s.Dir, "data", "the data folder; `--dir`"),
		text("nats_listen", &s.NATSListen, "127.0.0.1:4222", "host and port of the embedded NATS server, or `off`; `--nats-listen`"),
		text("http", &s.HTTP, "127.0.0.1:8484", "host and port of the HTTP API, `/healthz`, `/readyz` and `/metrics`, or `off`; `--http`"),
		text("pprof", &s.PProf, "off", "host and port of Go's profiler, which must be of this machine (127.0.0.1:6060), or `off`; `--pprof`"),
		choice("durability", &s.Durability, "always", "when an acknowledged write is on disk: `always` before the acknowledgement, `interval` within a second; `--durability`", Always, Interval),
		text("nats_url", &s.NATSURL, "", "an existing NATS to use instead of embedding one; `--nats-url`"),
		text("prefix", &s.Prefix, "work", "the first token of every subject; streams have it in capitals"),
		boolean("dedup_bucket", &s.NoDedupBucket, "true", "keep the KV bucket of taken dedup keys, for others to read"),
		choice("log_level", &s.LogLevel, "info", "the least level that is logged: `debug`, `info`, `warn`, `error`", "debug", "info", "warn", "error"),
		choice("log_format", &s.LogFormat, "text", "`text` or `json`", "text", "json"),
	}
}

func (l *Limits) fields() []field {
	return []field{
		integer("max_running", &l.MaxRunning, strconv.Itoa(DefaultMaxRunning), "items dispatched or running at once, over all types"),
		size("max_store_bytes", &l.MaxStoreBytes, "what the disk allows", "bound of the embedded JetStream on disk"),
		size("max_memory_bytes", &l.MaxMemoryBytes, "1GiB", "bound of the embedded JetStream's memory streams"),
		size("min_free_bytes", &l.MinFreeBytes, "256MiB", "free disk space below which new work is refused (`unavailable`; plain publishes wait in the intake) and `/healthz` says so"),
		duration("log_max_age", &l.LogMaxAge, "168h", "items' log records older than this are dropped"),
		size("log_max_bytes", &l.LogMaxBytes, "1GiB", "bound of all items' logs together; the oldest are dropped"),
		integer("max_queued", &l.MaxQueued, "no limit", "items queued or waiting, over all types, beyond which submissions are refused (`queue_full`); plain publishes wait in the intake"),
		steps("queue_steps", &l.QueueSteps, "none", stepsDoc),
		size("blob_max_bytes", &l.BlobMaxBytes, "4GiB", "bound of the object store of large params and results ([BLOBS.md](BLOBS.md)); at it they are refused (`unavailable`); at most an eighth of the embedded JetStream's storage"),
	}
}

func (w *Workers) fields() []field {
	return []field{
		duration("probe_interval", &w.ProbeInterval, DefaultProbeInterval.String(), "how often a worker that offers a probe is asked whether it is well; 100ms to 1h"),
		duration("probe_timeout", &w.ProbeTimeout, DefaultProbeTimeout.String(), "how long it may take to answer; 10ms up to, and less than, `probe_interval`"),
		integer("probe_failures", &w.ProbeFailures, strconv.Itoa(DefaultProbeFailures), "failed probes in a row that make a worker unhealthy, until the next good answer; 1 to 100"),
	}
}

// fields of [retention]: how long ended items are kept, for every type that
// has no own, and when the log is cut.
func (r *Retention) fields(p *RetainPatch) []field {
	return append(p.fields(), integer("cut_events", &r.CutEvents, strconv.Itoa(DefaultCutEvents), "events that the log holds at least before it is cut; it also grows to four for each item that is kept"))
}

func (r *RetainPatch) fields() []field {
	return []field{
		optional("completed", duration, &r.Completed, "24h", "how long an item is kept once it has completed"),
		optional("dead", duration, &r.Dead, "720h", "once it is dead"),
		optional("cancelled", duration, &r.Cancelled, "24h", "once it is cancelled"),
		optional("merged", duration, &r.Merged, "24h", "once it was merged into another"),
	}
}

func (p *Patch) fields() []field {
	d := events.DefaultTypeSettings()
	own := []field{
		optional("capacity", integer[int], &p.Capacity, strconv.Itoa(d.Capacity), "items of the type dispatched or running at once"),
		optional("lease", duration, &p.Lease, d.Lease().String(), "how long a worker may be silent before its item is given to another"),
		optional("age_step", duration, &p.AgeStep, d.AgeStep().String(), "an item that has waited this long ranks as one of the next higher priority"),
		optional("max_params_bytes", size, &p.MaxParams, fmt.Sprintf("%dKiB", d.MaxParams>>10), "bound of a submission's params"),
		optional("dedup_policy", dedupPolicy, &p.DedupPolicy, string(events.DedupMerge), "what becomes of a submission whose dedup key is taken: `merge`, `distinct`, `supersede`, `defer`"),
		optional("dedup_window", duration, &p.DedupWindow, "0s", "how long a dedup key stays taken after completion; at most 30 days"),
		optional("protocol", protocol, &p.Protocol, string(events.ProtocolClaim), "how items reach their workers: `claim`, or `ack` for any JetStream consumer ([NATIVE.md](NATIVE.md))"),
	}
	own = append(own, p.Run.fields()...)
	own = append(own, p.protectionFields()...)
	own = append(own, p.Limits.fields()...)
	return append(own, field{key: "priority", kind: "table", each: "priority",
		doc: "what items of one priority have differently: `timeout`, `max_attempts`, `backoff`", table: p.priority})
}

func (p *Patch) priority(key string) ([]field, error) {
	n, err := strconv.Atoi(key)
	if err != nil || n < 0 || n > int(events.MaxPriority) {
		return nil, fmt.Errorf("%q is no priority: use 0 to %d", key, events.MaxPriority)
	}
	if p.PerPriority == nil {
		p.PerPriority = map[events.Priority]RunPatch{}
	}
	r := new(RunPatch)
	prio := events.Priority(n)
	fields := r.fields()
	return after(fields, func() { p.PerPriority[prio] = *r }), nil
}

func (r *RunPatch) fields() []field {
	d := events.DefaultTypeSettings()
	b := &r.Backoff
	backoff := []field{
		optional("initial", duration, &b.Initial, "1s", "wait before the first retry"),
		optional("factor", float, &b.Factor, "2", "by how much each further wait is longer"),
		optional("max", duration, &b.Max, "30s", "the longest wait"),
		optional("jitter", float, &b.Jitter, "0.3", "the part of a wait by which it is lengthened at random, 0 to 1"),
	}
	return []field{
		optional("timeout", duration, &r.Timeout, "5m0s", "how long an attempt may run"),
		optional("max_attempts", integer[int], &r.MaxAttempts, strconv.Itoa(int(d.MaxAttempts)), "attempts before an item is dead"),
		{key: "backoff", kind: "table", doc: "the wait between attempts", table: func(string) ([]field, error) { return backoff, nil }},
	}
}

func (e *Exec) fields() []field {
	return []field{
		texts("command", &e.Command, "", "program and arguments, run once for each attempt"),
		integer("concurrency", &e.Concurrency, "the type's capacity", "children at once"),
		texts("capabilities", &e.Capabilities, "", "what the children can do beyond the ordinary"),
		duration("grace", &e.Grace, DefaultGrace.String(), "from the request to stop to the kill"),
	}
}

// fields of a type: those of its patch, and exec, which may be the command
// alone or a table.
func (t *Type) fields() []field {
	retain := t.Patch.Retain.fields()
	return append(t.Patch.fields(), field{key: "retain", kind: "table", doc: "how long ended items are kept",
		table: func(string) ([]field, error) { return retain, nil }}, field{key: "exec", kind: "strings or table",
		doc: "a command that the engine runs for the items of this type: `exec = [\"cmd\", \"arg\"]`, or a table of the keys below",
		set: func(v any) error {
			t.Exec = &Exec{Grace: DefaultGrace}
			return texts("command", &t.Exec.Command, "", "").set(v)
		},
		table: func(string) ([]field, error) {
			t.Exec = &Exec{Grace: DefaultGrace}
			return t.Exec.fields(), nil
		}})
}

// fields are the file's tables.
func (c *Config) fields() []field {
	fixed := func(key, doc string, f []field) field {
		return field{key: key, kind: "table", doc: doc, table: func(string) ([]field, error) { return f, nil }}
	}
	return []field{
		fixed("server", "where and how the engine runs", c.Server.fields()),
		fixed("http", "who may use the HTTP server, and TLS; see [SECURITY.md](SECURITY.md)", c.HTTP.fields()),
		fixed("nats", "who may use the embedded NATS server, and TLS; see [SECURITY.md](SECURITY.md)", c.NATS.fields()),
		fixed("connect", "how the engine reaches and logs in to an existing NATS (`nats_url`); see [CONNECT.md](CONNECT.md)", connectFields(&c.Connect, &c.ExecConnect)),
		fixed("limits", "bounds of the engine as a whole", c.Limits.fields()),
		fixed("workers", "how the engine looks after workers; see [WORKERS.md](WORKERS.md)", c.Workers.fields()),
		fixed("worker_circuit", "when a worker that fails everything is left out for a while", c.WorkerCircuit.workerFields()),
		fixed("dedup_hook", "whom to ask, over NATS, whether a submission is the same as another (docs/IDENTITY.md)", c.DedupHook.fields()),
		fixed("retention", "how long ended items are kept, and when the log is cut", c.Retention.fields(&c.Defaults.Retain)),
		fixed("defaults", "settings of every type that has no own", c.Defaults.fields()),
		{key: "pools", kind: "table", each: "pool", doc: "slots that types share", table: c.poolFields},
		{key: "types", kind: "table", each: "type", doc: "settings of one type", table: c.typeFields},
		{key: "schedules", kind: "table", each: "schedule", doc: "periodic work", table: c.scheduleFields},
	}
}

func (c *Config) typeFields(key string) ([]field, error) {
	name, err := events.ParseType(key)
	if err != nil {
		return nil, err
	}
	t := new(Type)
	return after(t.fields(), func() { c.Types[name] = *t }), nil
}

// after makes a table's fields end with storing what they have filled.
func after(fields []field, store func()) []field {
	return append(fields, field{set: func(any) error { store(); return nil }})
}
