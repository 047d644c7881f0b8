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
		orOff(duration("max_clock_jump_ms", &s.MaxClockJump, DefaultMaxClockJump.String(), "how far the NATS server's clock may be ahead of the last event, and of the time that the engine last knew, and still be followed without a question; 1m to 10 years, or `off` for any ([OPERATIONS.md](../operate/OPERATIONS.md#when-the-clock-is-wrong))"), &s.MaxClockJump),
	}
}

func (l *Limits) fields() []field {
	return []field{
		integer("max_running", &l.MaxRunning, strconv.Itoa(DefaultMaxRunning), "items dispatched or running at once, over all types"),
		size("max_store_bytes", &l.MaxStoreBytes, "what the disk allows", "bound of the embedded JetStream on disk"),
		size("max_memory_bytes", &l.MaxMemoryBytes, "1GiB", "bound of the embedded JetStream's memory streams"),
		size("min_free_bytes", &l.MinFreeBytes, "256MiB", "free disk space below which new work is refused (`unavailable`; plain publishes wait in the intake) and `/healthz` says so; below half of it nothing is dispatched"),
		duration("log_max_age_ms", &l.LogMaxAge, "168h", "items' log records older than this are dropped"),
		size("log_max_bytes", &l.LogMaxBytes, "1GiB", "bound of all items' logs together, and a record for each KiB of it (at least 10,000); the oldest are dropped"),
		integer("max_queued", &l.MaxQueued, "no limit", "items queued or waiting, over all types, beyond which submissions are refused (`queue_full`); plain publishes wait in the intake"),
		steps("queue_steps", &l.QueueSteps, "none", stepsDoc),
		texts("types", &l.Types, "any", "types of which items may be submitted, beside those with a table of their own; others are refused (`type_not_allowed`)"),
		size("blob_max_bytes", &l.BlobMaxBytes, "4GiB", "bound of the object store of large params and results ([BLOBS.md](../guides/BLOBS.md)); at it they are refused (`unavailable`); at most an eighth of the embedded JetStream's storage"),
	}
}

func (w *Workers) fields() []field {
	return []field{
		duration("heartbeat_interval_ms", &w.HeartbeatInterval, DefaultHeartbeatInterval.String(), "how often a worker is to send a heartbeat, or each third of the shortest lease of its types if that is less (10s for the default lease). The answer to a registration tells the worker; 100ms to 10m. Unset beside a `dead_after_ms` below 1m: a third of that"),
		duration("dead_after_ms", &w.DeadAfter, DefaultDeadAfter.String(), "how long a worker may be silent before it is dead and its id is free; 300ms to 1h, and at least two `heartbeat_interval_ms`s. Unset beside a `heartbeat_interval_ms` above 20s: three of those"),
		duration("start_timeout_ms", &w.StartTimeout, events.StartWithin.String(), "how long a worker that has claimed an item without `start` has to start it before it is taken back, with no attempt used; 100ms to 1h. What a worker has pulled and not claimed is taken back after the type's `lease_ms`"),
		duration("sweep_interval_ms", &w.SweepInterval, DefaultSweepInterval.String(), "how often the engine looks for what a lost signal missed, such as a run whose lease ended unnoticed; 1s to 1h"),
		duration("probe_interval_ms", &w.ProbeInterval, DefaultProbeInterval.String(), "how often a worker that offers a probe is asked whether it is well; 100ms to 1h"),
		duration("probe_timeout_ms", &w.ProbeTimeout, DefaultProbeTimeout.String(), "how long it may take to answer; 10ms up to, and less than, `probe_interval_ms`"),
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
		optional("completed_ms", duration, &r.Completed, "24h", "how long an item is kept once it has completed"),
		optional("dead_ms", duration, &r.Dead, "720h", "once it is dead"),
		optional("cancelled_ms", duration, &r.Cancelled, "24h", "once it is cancelled"),
		optional("merged_ms", duration, &r.Merged, "24h", "once it was merged into another"),
	}
}

func (p *Patch) fields() []field {
	d := events.DefaultTypeSettings()
	own := []field{
		optional("capacity", integer[int], &p.Capacity, strconv.Itoa(d.Capacity), "items of the type dispatched or running at once"),
		optional("lease_ms", duration, &p.Lease, d.Lease().String(), "how long a worker may be silent before its item is given to another; a run keeps the lease that it began with"),
		optional("age_step_ms", duration, &p.AgeStep, d.AgeStep().String(), "an item that has waited this long ranks as one of the next higher priority"),
		optional("max_params_bytes", size, &p.MaxParams, fmt.Sprintf("%dKiB", d.MaxParams>>10), "bound of a submission's params"),
		optional("dedup_policy", dedupPolicy, &p.DedupPolicy, string(events.DedupMerge), "what becomes of a submission whose dedup key is taken: `merge`, `distinct`, `supersede`, `defer`"),
		optional("dedup_window_ms", duration, &p.DedupWindow, "0s", "how long a dedup key stays taken after completion; at most 30 days"),
		optional("protocol", protocol, &p.Protocol, string(events.ProtocolClaim), "how items reach their workers: `claim`, or `ack` for any JetStream consumer ([NATIVE.md](../guides/NATIVE.md))"),
	}
	own = append(own, p.Run.fields()...)
	own = append(own, p.protectionFields()...)
	own = append(own, p.Limits.fields()...)
	return append(own, field{key: "per_priority", kind: "table", each: "priority",
		doc: "what items of one priority have differently: `timeout_ms`, `max_attempts`, `backoff`", table: p.priority})
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
		optional("initial_ms", duration, &b.Initial, "1s", "wait before the first retry"),
		optional("factor", float, &b.Factor, "2", "by how much each further wait is longer"),
		optional("max_ms", duration, &b.Max, "30s", "the longest wait"),
		optional("jitter", float, &b.Jitter, "0.3", "the part of a wait by which it is lengthened at random, 0 to 1"),
	}
	return []field{
		optional("timeout_ms", duration, &r.Timeout, "5m0s", "how long an attempt may run"),
		optional("max_attempts", integer[int], &r.MaxAttempts, strconv.Itoa(int(d.MaxAttempts)), "attempts before an item is dead"),
		{key: "backoff", kind: "table", doc: "the wait between attempts", table: func(string) ([]field, error) { return backoff, nil }},
	}
}

func (e *Exec) fields() []field {
	return []field{
		texts("command", &e.Command, "", "program and arguments, run once for each attempt"),
		integer("concurrency", &e.Concurrency, "the type's capacity", "children at once"),
		texts("capabilities", &e.Capabilities, "", "what the children can do beyond the ordinary"),
		texts("env", &e.Env, "", "the children's environment, beside what any program needs (`PATH`, `HOME`, `USER`, `SHELL`, `LANG`, `LC_*`, `TZ`, `TMPDIR`): `NAME` passes the engine's own on, `NAME=value` sets one"),
		duration("grace_ms", &e.Grace, DefaultGrace.String(), "from the request to stop to the kill"),
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
		fixed("http", "who may use the HTTP server, and TLS; see [ACCESS.md](../operate/ACCESS.md)", c.HTTP.fields()),
		fixed("nats", "who may use the embedded NATS server, and TLS; see [ACCESS.md](../operate/ACCESS.md)", c.NATS.fields()),
		fixed("connect", "how the engine reaches and logs in to an existing NATS (`nats_url`); see [CONNECT.md](../operate/CONNECT.md)", connectFields(&c.Connect, &c.ExecConnect)),
		fixed("limits", "bounds of the engine as a whole", c.Limits.fields()),
		fixed("workers", "what the engine expects of workers, and how long it waits; see [WORKERS.md](../guides/WORKERS.md#times)", c.Workers.fields()),
		fixed("worker_circuit", "when a worker that fails everything is left out for a while", c.WorkerCircuit.workerFields()),
		fixed("dedup_hook", "whom to ask, over NATS, whether a submission is the same as another (docs/guides/IDENTITY.md)", c.DedupHook.fields()),
		fixed("retention", "how long ended items are kept, and when the log is cut", c.Retention.fields(&c.Defaults.Retain)),
		fixed("defaults", "settings of every type that has no own", c.Defaults.fields()),
		{key: "pools", kind: "table", each: "pool", doc: "slots that types share", table: c.poolFields},
		{key: "quotas", kind: "table", each: "role", doc: "what each user with a role may ask", table: c.roleQuota},
		{key: "user_quotas", kind: "table", each: "user", doc: "what one user may ask", table: c.userQuota},
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
