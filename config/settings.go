package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
)

// This file is the table of all settings: a row each with its key, where its value
// is kept, how it is written, its bounds, its default, and its documentation.
// What several settings must be together is in validate.go.

// fields are the file's tables.
func (c *Config) fields() []field {
	return []field{
		fixed("server", "where and how the engine runs", c.Server.fields()),
		fixed("http", "who may use the HTTP server, and TLS; see [ACCESS.md](../operate/ACCESS.md)", c.HTTP.fields()),
		fixed("nats", "who may use the embedded NATS server, and TLS; see [ACCESS.md](../operate/ACCESS.md)", c.NATS.fields()),
		fixed("leaf", "which sites at the edge submissions are taken from; see [EDGE.md](../operate/EDGE.md)", c.Leaf.fields()),
		fixed("cluster", "several nodes on one log: the embedded NATS servers of `engine serve` as one cluster, or engines on an existing NATS; see [CLUSTER.md](../operate/CLUSTER.md)", c.Cluster.fields()),
		fixed("connect", "how the engine reaches and logs in to an existing NATS (`nats_url`); see [CONNECT.md](../operate/CONNECT.md)", connectFields(&c.Connect, &c.ExecConnect)),
		fixed("limits", "bounds of the engine as a whole", c.Limits.fields()),
		fixed("workers", "what the engine expects of workers, and how long it waits; see [WORKERS.md](../guides/WORKERS.md#times)", c.Workers.fields()),
		fixed("worker_circuit", "when a worker that fails everything is left out for a while", c.WorkerCircuit.rows("", workerCircuitSettings)),
		fixed("dedup_hook", "whom to ask, over NATS, whether a submission is the same as another (docs/guides/IDENTITY.md)", c.DedupHook.fields()),
		fixed("retention", "how long ended items are kept, and when the log is cut", append(c.Defaults.rows("retain.", retainSettings()),
			at("cut_events", &c.Retention.CutEvents, integer[int](1000, 1_000_000_000), 1_000_000, "events that the log holds at least before it is cut; it also grows to four for each item that is kept"))),
		fixed("metrics", "what `/metrics` shows; see [METRICS.md](METRICS.md)", []field{
			at("type_histograms", &c.Metrics.TypeHistograms, integer[int](1, events.MaxTypes), 50, "types with histograms of their own, about 60 series each: the first that are used. The times of the others are measured together, as type `(others)`"),
		}),
		fixed("defaults", "settings of every type that sets none of its own", c.Defaults.fields()),
		each("pools", "pool", "slots that types share", &c.Pools, parsePool, (*Pool).fields),
		each("quotas", "role", "what each user with a role may ask", &c.Quotas.Roles, access.ParseRole, quotaFields),
		each("user_quotas", "user", "what one user may ask", &c.Quotas.Users, parseUser, quotaFields),
		each("types", "type", "settings of one type", &c.Types, events.ParseType, (*Type).fields),
		each("schedules", "schedule", "periodic work", &c.Schedules, events.ParseScheduleName, (*Schedule).fields),
		each("namespaces", "namespace", "a log of its own in this engine", &c.Namespaces, parseNamespace, (*Namespace).fields),
	}
}

func (s *Server) fields() []field {
	return []field{
		at("dir", &s.Dir, text.that(func(dir string) error {
			if dir == "" {
				return errors.New("is empty: name a folder")
			}
			return nil
		}), "data", "the data folder; `--dir`"),
		at("nats_listen", &s.NATSListen, address, "127.0.0.1:4222", "host and port of the embedded NATS server, or `off`; `--nats-listen`"),
		at("http", &s.HTTP, address, "127.0.0.1:8484", "host and port of the HTTP API, `/healthz`, `/readyz` and `/metrics`, or `off`; `--http`"),
		at("pprof", &s.PProf, address.that(checkPProf), Off, "host and port of Go's profiler, on this machine alone (such as 127.0.0.1:6060), or `off`; `--pprof`"),
		at("durability", &s.Durability, choice(Always, Interval), Always, "when an acknowledged write is on disk: `always` before the acknowledgement, `interval` within a second; `--durability`"),
		zero("nats_url", &s.NATSURL, text.that(checkNATSURL), "", "an existing NATS to use instead of embedding one; `--nats-url`"),
		at("prefix", &s.Prefix, text.that(func(s string) error {
			if len(s) > MaxPrefixLen || !namePattern.MatchString(s) || strings.Contains(s, "-") {
				return fmt.Errorf("is %q: it must be at most %d characters of a-z and 0-9, with single _ between them", s, MaxPrefixLen)
			}
			return nil
		}), "work", "the first token of every subject; streams have it in capitals. Those of the namespace acme begin with `work-acme` and `WORK-ACME`"),
		at("weight", &s.Weight, integer[int](1, events.MaxWeight), 1, "of the share of the processors that the namespace `default` has, as `weight` below `[namespaces.NAME]` is of another's"),
		at("dedup_bucket", &s.NoDedupBucket, unless, false, "keep the KV bucket of taken dedup keys, for others to read"),
		at("log_level", &s.LogLevel, choice("debug", "info", "warn", "error"), "info", "the least level that is logged: `debug`, `info`, `warn`, `error`"),
		at("log_format", &s.LogFormat, choice("text", "json"), "text", "`text` or `json`; `--log-format`"),
		at("log_transitions", &s.LogTransitions, choice("off", "sampled", "all"), "off", "a line at level info for each transition of an item: `off`, `sampled` (at most 100 a second), `all` ([OPERATIONS.md](../operate/OPERATIONS.md#the-log)); `--log-transitions`"),
		at("max_clock_jump", &s.MaxClockJump, spanOrOff(time.Minute, 10*365*24*time.Hour), 24*time.Hour, "how far the NATS server's clock may be ahead at a start of the last event, and of the time that the engine last knew, and still be followed without a question, if nobody has measured the time since; where it was measured, 5m; 1m to 10 years, or `off` for any ([OPERATIONS.md](../operate/OPERATIONS.md#when-the-clock-is-wrong))"),
	}
}

func (h *HTTP) fields() []field {
	return []field{
		at("tokens_file", &h.TokensFile, text, "", "the file of bearer tokens, `name token role[,role…]` on a line; `--http-tokens`. A role is one in the namespace `default`, such as `submit`, or in another, `acme/submit`, or in every one, `*/submit`. The environment's `WORK_TOKENS` may hold more"),
		at("tls_cert", &h.TLSCert, text, "", "certificate file (PEM) of the server, which speaks HTTPS then"),
		at("tls_key", &h.TLSKey, text, "", "its key file"),
		at("client_ca", &h.ClientCA, text, "", "the CA file (PEM) whose client certificates are accepted"),
		zero("clients", &h.Clients, tables(func(c *HTTPClient) []field {
			return []field{at("name", &c.Name, text, "", ""), at("roles", &c.Roles, roles, access.Memberships{}, "")}
		}).that(checkHTTPClients), "none", "client certificates that are known, a table each, `[[http.clients]]`: `name` (the common name, or a DNS name, e-mail address or URI among the alternative names) and `roles`, written as in the tokens file"),
		at("hosts", &h.Hosts, atMost(MaxHTTPHosts, func(string) error { return nil }), nil, "names, beside `localhost` and addresses in numbers, by which an engine that needs no token may be asked"),
		at("allow_open", &h.AllowOpen, truth, false, "listen beyond this machine without asking who connects; for a network that is closed by other means"),
	}
}

func (n *NATS) fields() []field {
	return []field{
		at("tls_cert", &n.TLSCert, text, "", "certificate file (PEM) of the embedded NATS server, whose clients must use TLS then"),
		at("tls_key", &n.TLSKey, text, "", "its key file"),
		at("client_ca", &n.ClientCA, text, "", "the CA file (PEM); clients must show a certificate of it, beside their login"),
		zero("users", &n.Users, tables((*NATSUser).fields).that(checkNATSUsers), "none", "who may connect, a table each, `[[nats.users]]`: `name`, one of `password` (12 characters or more, or a bcrypt hash), `password_file` (whose first line is one) and `nkey` (the public one), `roles`, written as in the tokens file, `documents = false` to leave out the object store, and `publish = false` to leave out plain publishes; without users everyone may connect and do what clients do"),
		at("allow_open", &n.AllowOpen, truth, false, "listen beyond this machine without users; for a network that is closed by other means"),
	}
}

func (u *NATSUser) fields() []field {
	return []field{
		at("name", &u.Name, text, "", ""), at("password", &u.Password, text, "", ""), at("password_file", &u.PasswordFile, text, "", ""),
		at("nkey", &u.Nkey, text, "", ""), at("roles", &u.Roles, roles, access.Memberships{}, ""),
		at("documents", &u.NoDocuments, unless, false, ""), at("publish", &u.NoPublish, unless, false, ""),
	}
}

func (c *Cluster) fields() []field {
	return []field{
		zero("name", &c.Name, text.that(checkNodeName), "none", "the cluster of the embedded NATS servers, the same on each node; `--cluster`. Without it the engine stands alone, or uses an existing NATS"),
		zero("node", &c.Node, text.that(checkNodeName), "none", "this node's name, different on each; `--node`"),
		zero("listen", &c.Listen, text.that(checkClusterAddress), "none", "host and port for the other nodes (port 6222 if none is given); `--cluster-listen`"),
		zero("advertise", &c.Advertise, text.that(checkClusterAddress), "what listen says", "host and port by which the other nodes reach this one, if `listen` is not that; `--cluster-advertise`"),
		zero("peers", &c.Peers, atMost(MaxNodes, checkClusterAddress), "none", "host and port of every node, with or without this one; `--peer`, for each"),
		at("tls_cert", &c.TLSCert, text, "", "this node's certificate file (PEM), for servers and clients alike; needed, with the next three, unless all nodes are on this machine alone"),
		at("tls_key", &c.TLSKey, text, "", "its key file"),
		at("tls_ca", &c.TLSCA, text, "", "the CA file (PEM) of the nodes' certificates"),
		at("secret_file", &c.SecretFile, text, "", "the file whose first line is the secret that the nodes share, 12 characters or more; `--cluster-secret-file`"),
		zero("replicas", &c.Replicas, integer[int](0, MaxReplicas).that(checkReplicas), "3 on a cluster", "copies of each stream with primary data: 1, 3 or 5; also for an existing NATS"),
		zero("placement", &c.Placement, atMost(MaxPlacement, checkTag), "none", "tags of the servers of an existing NATS that are to hold the streams"),
		at("stale_reads", &c.StaleReads, choice(AnswerStale, RefuseStale), AnswerStale, "what a node that is cut off from the others does with reads: `answer` from its own store, marked as stale, or `refuse`"),
		at("lease", &c.Lease, span(MinLease, MaxLease), DefaultLease, "the silence of the log's owner after which another engine takes the log over, or a third of it if NATS answers that the owner's program is gone; 1s to 1m"),
	}
}

// connectFields returns the fields of [connect] and, below it, [connect.exec].
func connectFields(s, exec *connect.Settings) []field {
	return []field{
		at("context", &s.Context, text, "", "a context of the nats program, by its name or the path of its file, which gives what is not set here and, without `nats_url`, the server; `--context`"),
		at("creds", &s.Creds, text, "", "log in with this credentials file; `--creds`"),
		at("nkey", &s.Nkey, text, "", "log in with the nkey whose seed is in this file; `--nkey`"),
		at("user", &s.User, text, "", "log in with this user's name; `--user`"),
		at("password_file", &s.PasswordFile, text, "", "the file whose first line is the user's password; `--password-file`, and the environment's `NATS_PASSWORD`"),
		at("tls_ca", &s.CA, text, "", "file (PEM) of the CAs to trust; `--tlsca`"),
		at("tls_cert", &s.Cert, text, "", "the engine's certificate file (PEM); `--tlscert`"),
		at("tls_key", &s.Key, text, "", "its key file; `--tlskey`"),
		at("tls_first", &s.TLSFirst, truth, false, "begin with the TLS handshake, as the server must, too; `--tlsfirst`"),
		at("js_domain", &s.Domain, text, "", "the JetStream domain of the engine's streams, if it is not the server's; `--js-domain`"),
		zero("inbox_prefix", &s.InboxPrefix, text, "_INBOX_USER or _INBOX", "what reply subjects begin with; `--inbox-prefix`"),
		fixed("exec", "the login of the types' commands", []field{
			at("creds", &exec.Creds, text, "", "the workers of types with `exec` log in with this credentials file, in place of the engine's login"),
			at("nkey", &exec.Nkey, text, "", "or with the nkey whose seed is in this file"),
			at("user", &exec.User, text, "", "or with this user's name"),
			at("password_file", &exec.PasswordFile, text, "", "the file whose first line is that user's password"),
			zero("tls_cert", &exec.Cert, text, "the engine's", "their certificate file (PEM)"),
			zero("tls_key", &exec.Key, text, "the engine's", "its key file"),
			zero("inbox_prefix", &exec.InboxPrefix, text, "_INBOX_USER or _INBOX", "what their reply subjects begin with"),
		}),
	}
}

func (l *Limits) fields() []field {
	return []field{
		at("max_running", &l.MaxRunning, integer[int](1, events.MaxTypes*events.MaxCapacity), 10_000, "items dispatched or running at once, over all types"),
		zero("max_store", &l.MaxStoreBytes, size[int64](64<<20, 1<<50).orZero(), "what the disk allows", "bound of the embedded JetStream on disk"),
		at("max_memory", &l.MaxMemoryBytes, size[int64](16<<20, 1<<45), 1<<30, "bound of the embedded JetStream's memory streams"),
		at("min_free", &l.MinFreeBytes, size[int64](1<<20, 1<<50), 256<<20, "free disk space below which new work is refused (`unavailable`; plain publishes wait in the intake) and `/healthz` says so; below half of it nothing is dispatched"),
		at("log_max_age", &l.LogMaxAge, span(time.Minute, events.MaxDelay), 7*24*time.Hour, "items' log records older than this are dropped"),
		at("log_max_size", &l.LogMaxBytes, size[int64](1<<20, 1<<50), 1<<30, "bound of all items' logs together, and a record for each KiB of it (at least 10,000); the oldest are dropped"),
		at("output_max_size", &l.OutputMaxBytes, size[int64](1<<20, 1<<50), 1<<30, "bound of all items' outputs together ([OUTPUT.md](../guides/OUTPUT.md)), and a chunk for each KiB of it (at least 65,536); the oldest chunks are dropped"),
		at("output_item_size", &l.OutputItem, size[int](1<<10, 16<<20), 1<<20, "bound of the output of one run; what is beyond is dropped, and the output marked as cut"),
		zero("max_queued", &l.MaxQueued, integer[int](0, events.MaxMaxQueued), "no limit", "items queued or waiting, over all types, beyond which submissions are refused (`queue_full`); plain publishes wait in the intake"),
		zero("queue_steps", &l.QueueSteps, steps, "none", stepsDoc),
		zero("types", &l.Types, atMost(events.MaxTypes, checkTypeName), "any", "types of which items may be submitted, beside those with a table of their own; others are refused (`type_not_allowed`)"),
		at("blob_max_size", &l.BlobMaxBytes, size[int64](1<<20, 1<<50), 4<<30, "bound of the object store of large params and results ([BLOBS.md](../guides/BLOBS.md)), at which they are refused (`unavailable`); at most an eighth of the embedded JetStream's storage"),
	}
}

func (w *Workers) fields() []field {
	return []field{
		at("heartbeat_interval", &w.HeartbeatInterval, span(100*time.Millisecond, 10*time.Minute), defaultHeartbeat, "how often a worker is to send a heartbeat, or each third of the shortest lease of its types if that is less (10s for the default lease). The reply to a registration tells the worker; 100ms to 10m. If only `dead_after` is set, and below 1m: a third of that"),
		at("dead_after", &w.DeadAfter, span(300*time.Millisecond, maxDeadAfter), defaultDeadAfter, "how long a worker may be silent before it is dead and its id is free; 300ms to 1h, and at least two `heartbeat_interval`s. If only `heartbeat_interval` is set, and above 20s: three of those"),
		at("start_timeout", &w.StartTimeout, span(events.MinStartTimeout, events.MaxStartTimeout), events.StartWithin, "how long a worker that was sent an item has to start it before it is taken back, with no attempt used, and while the log is slow the time of four appends more; 100ms to 1h"),
		at("sweep_interval", &w.SweepInterval, span(time.Second, time.Hour), time.Minute, "how often the engine looks for what a lost signal missed, such as a run whose lease ended unnoticed; 1s to 1h"),
		at("probe_interval", &w.ProbeInterval, span(100*time.Millisecond, time.Hour), time.Minute, "how often a worker that offers a probe is asked whether it is healthy; 100ms to 1h"),
		at("probe_timeout", &w.ProbeTimeout, span(10*time.Millisecond, time.Hour), 5*time.Second, "how long the answer may take; 10ms up to, and less than, `probe_interval`"),
		at("probe_failures", &w.ProbeFailures, integer[int](1, 100), 2, "failed probes in a row that make a worker unhealthy, until the next good answer; 1 to 100"),
	}
}

func (d *DedupHook) fields() []field {
	return []field{
		at("subject", &d.Subject, text.that(checkSubject), "", "the subject of the requests; empty: nobody is asked"),
		zero("types", &d.Types, atMost(events.MaxTypes, checkTypeName), "all", "the types whose submissions are asked about"),
		at("timeout", &d.Timeout, span(time.Millisecond, time.Minute), 2*time.Second, "how long an answer may take, at most 1m"),
		at("fallback", &d.Fallback, choice("key", "distinct"), "key", "without an answer: `key` decides by the dedup key, `distinct` runs the item in any case"),
		at("candidates", &d.Candidates, integer[int](1, 200), 20, "live items that a question lists, at most 200"),
		at("key_separator", &d.KeySeparator, text, "", "list the items whose dedup key begins like the submission's, up to the last separator in it; empty: those of its type"),
	}
}

func (p *Pool) fields() []field {
	slots := at("slots", &p.Slots, integer[int](1, events.MaxPoolSlots), 0, "runs at once of the types that name the pool, together")
	slots.def = "" // must be set
	return []field{slots}
}

func quotaFields(l *quota.Limits) []field {
	const none = "no limit"
	rate, connections := integer[int](0, quota.MaxRate), integer[int](0, quota.MaxConnects)
	return []field{
		optional(quota.Items, &l.ItemsPerSecond, rate, none, "items submitted in a second (`quota_exceeded`)"),
		optional(quota.Bytes, &l.BytesPerSecond, size[int64](0, quota.MaxByteRate), none, "bytes of submissions in a second, over HTTP with the documents of large params"),
		optional(quota.Requests, &l.RequestsPerSecond, rate, none, "requests in a second, without those of workers about their runs"),
		optional(quota.Types, &l.Types, integer[int](0, quota.MaxTypes), none, "types that the user's submissions may create while the engine runs"),
		optional(quota.Waits, &l.Waits, integer[int](0, quota.MaxWaits), none, "waits, long polls and feeds that are open at once"),
		optional(quota.Connections, &l.Connections, connections, none, "connections to NATS; the server refuses the next one"),
		optional(quota.Subscriptions, &l.Subscriptions, connections, none, "subscriptions on NATS; the server refuses the next one"),
		optional(quota.Payload, &l.PayloadBytes, size[int64](quota.MinPayload, quota.MaxPayload).orZero(), "the server's", "bytes of a message on NATS; the server closes a connection that sends more"),
	}
}

func (e *Exec) fields() []field {
	return []field{
		at("command", &e.Command, atMost(MaxExecArgs, func(string) error { return nil }), nil, "program and arguments, run once for each attempt"),
		zero("concurrency", &e.Concurrency, integer[int](0, events.MaxCapacity), "the type's capacity", "children at once"),
		at("capabilities", &e.Capabilities, atMost(events.MaxCapabilities, checkCapability), nil, "what the children can do beyond the ordinary"),
		at("env", &e.Env, atMost(MaxExecEnv, checkEnv), nil, "the children's environment, beside what any program needs (`PATH`, `HOME`, `USER`, `SHELL`, `LANG`, `LC_*`, `TZ`, `TMPDIR`): `NAME` passes the engine's own on, `NAME=value` sets one"),
		at("grace", &e.Grace, span(0, 10*time.Minute), DefaultGrace, "from the request to stop to the kill"),
	}
}

func (s *Schedule) fields() []field {
	return []field{
		at("type", &s.Type, text, "", "type of the items that it makes; must be set"),
		at("cron", &s.Cron, text, "", "five fields, minute hour day-of-month month day-of-week, or a word such as `@daily`; this or `every` must be set"),
		zero("every", &s.Every, span(events.MinEvery, events.MaxDelay), "", "an interval instead, at least a second"),
		zero("zone", &s.Zone, text, "UTC", "time zone of `cron`: an IANA name such as `Europe/Berlin`"),
		zero("anchor", &s.Anchor, moment, "when it is first recorded", "one of the ticks of `every`, from which the others are counted"),
		zero("missed", &s.Missed, choice(events.MissedSkip, events.MissedOne, events.MissedAll), string(events.MissedOne), "ticks that came while no engine ran: `skip` them, `one` item for all, `all`: one for each"),
		zero("overlap", &s.Overlap, choice(events.DedupDistinct, events.DedupMerge, events.DedupDefer, events.DedupSupersede), string(events.DedupDistinct),
			"a tick whose last item has not ended: `distinct` runs both, `merge` into it, `defer` until it ends, `supersede` it"),
		at("params", &s.Params, document, nil, "params of the items: a table, or JSON in a string"),
		optional("priority", &s.Priority, integer[int](0, int64(events.MaxPriority)), "5", "0 to 9, higher first"),
		at("tenant", &s.Tenant, text, "", "for whom the items are"),
		at("labels", &s.Labels, stringTable, nil, "labels of the items: a table of strings"),
		zero("max_attempts", &s.MaxAttempts, integer[int](1, events.MaxAttemptsCeiling), "the type's", "attempts before an item is dead"),
		zero("timeout", &s.Timeout, span(time.Millisecond, events.MaxTimeout), "the type's", "how long an attempt may run"),
		at("paused", &s.Paused, truth, false, "it does not tick"),
	}
}

func (n *Namespace) fields() []field {
	return []field{
		at("paused", &n.Paused, truth, false, "it is stopped, and keeps what it holds"),
		zero("max_queued", &n.MaxQueued, integer[int](0, events.MaxMaxQueued), "no limit", "items queued or waiting, over all its types, beyond which submissions are refused (`queue_full`)"),
		zero("max_log_size", &n.MaxLogBytes, size[int64](events.MinBound, events.MaxBound).orZero(), "no limit", "bound of its event stream"),
		zero("max_document_size", &n.MaxDocumentBytes, size[int64](events.MinBound, events.MaxBound).orZero(), "the engine's `blob_max_size`", "bound of its object store of large params and results"),
		zero("requests_per_second", &n.RequestsPerSecond, integer[int](0, events.MaxRequestsRate), "no limit", "requests of all its users together"),
		zero("node", &n.Node, text.that(checkNodeName), "any node", "the node that should own its log"),
		zero("weight", &n.Weight, integer[int](1, events.MaxWeight), "1", "of its share of the processors while they are all taken ([NAMESPACES.md](../guides/NAMESPACES.md#its-share-of-the-processors))"),
		zero("accept", &n.Accept, namespaceList, "none", "the namespaces whose clients may hand work to it"),
	}
}

// fields of a type: the settings that the file sets for it, and its command.
func (t *Type) fields() []field { return append(t.Patch.fields(), t.ownFields()...) }

// ownFields returns the fields of a type that [defaults] does not have.
func (t *Type) ownFields() []field {
	exec := func() *Exec {
		if t.Exec == nil {
			t.Exec = &Exec{Grace: DefaultGrace}
		}
		return t.Exec
	}
	return []field{
		fixed("retain", "how long ended items are kept", t.Patch.rows("retain.", retainSettings())),
		{key: "exec", kind: "strings or table", doc: "a command that the engine runs for the items of this type: `exec = [\"cmd\", \"arg\"]`, or a table of the keys below",
			set:   func(v any) (err error) { exec().Command, err = texts.parse(v); return err },
			table: func(string) ([]field, error) { return exec().fields(), nil }},
	}
}

const stepsDoc = "what is still accepted as the queue grows, a table each, in rising order: where more than `over` items would wait, only those of `min_priority` and above or from one of `sources`"

var steps = tables(func(s *events.QueueStep) []field {
	return []field{
		at("over", &s.Over, whole[int](), 0, ""),
		at("min_priority", &s.MinPriority, integer[events.Priority](0, int64(events.MaxPriority)), 0, ""),
		at("sources", &s.Sources, texts, nil, ""),
	}
}).that(func(steps []events.QueueStep) error {
	return checkSteps(events.Limits{QueueSteps: steps})
})

// checkSteps reports what is wrong with queue steps, each fault at its element.
func checkSteps(l events.Limits) error {
	err := l.Validate()
	if err == nil {
		return nil
	}
	var errs []error
	for _, line := range strings.Split(err.Error(), "\n") {
		msg, ours := strings.CutPrefix(line, "queue_steps")
		if !ours {
			continue
		}
		var i int
		var field string
		if n, _ := fmt.Sscanf(msg, "[%d].%s ", &i, &field); n > 0 {
			errs = append(errs, &elementError{i, field, msg})
		} else {
			errs = append(errs, errors.New(strings.TrimSpace(msg)))
		}
	}
	return errors.Join(errs...)
}

var rates = tables(func(r *events.RateLimit) []field {
	anySpan := millis(math.MinInt64, math.MaxInt64) // checked below
	return []field{at("per", &r.Per, text, "", ""), at("at", &r.At, text, "", ""), at("n", &r.N, whole[int](), 0, ""), at("interval", &r.Interval, anySpan, events.Duration{}, ""), at("burst", &r.Burst, whole[int](), 0, "")}
}).that(func(rates []events.RateLimit) error {
	var errs []error
	for i, r := range rates { // whether one fits the type's group_by is seen with all of its settings
		if err := r.Validate(); err != nil {
			msg := strings.ReplaceAll(Spell(err.Error()), "\n", "; ")
			field, _, _ := strings.Cut(msg, " ")
			errs = append(errs, &elementError{i, field, fmt.Sprintf("has an element %d whose %s", i+1, msg)})
		}
	}
	return errors.Join(errs...)
})

var (
	namePattern = regexp.MustCompile(`^[a-z0-9]+([_-][a-z0-9]+)*$`)
	envPattern  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// address is host:port, or off.
var address = text.that(checkAddress)

func checkAddress(addr string) error {
	if !IsAddress(addr) {
		return fmt.Errorf("is %q: it must be host:port such as 127.0.0.1:4222 (port 0: any free one), or off", addr)
	}
	return nil
}

// IsAddress reports whether a server can be told to listen on addr: it is host:port,
// or off.
func IsAddress(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	n, perr := strconv.Atoi(port)
	return addr == Off || err == nil && perr == nil && n >= 0 && n <= 65535
}

// checkNATSURL does not quote the URL, nor what net/url says, which quotes parts of it: it
// may have a password in it.
func checkNATSURL(s string) error {
	const use = "use one such as nats://127.0.0.1:4222; a password in it must have its special characters percent-encoded"
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("is not a URL: " + use)
	case u.Scheme == "":
		return errors.New("is a URL without a scheme: " + use)
	case u.Host == "":
		return errors.New("is a URL without a host: " + use)
	}
	return nil
}

func checkPProf(addr string) error {
	if err := checkAddress(addr); err != nil || addr == Off {
		return err
	}
	host, _, _ := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("is %q: profiles show the engine's memory, so use an address of this machine alone, such as 127.0.0.1:6060", addr)
	}
	return nil
}

func checkSubject(s string) error {
	const most = 255
	if len(s) > most || strings.ContainsAny(s, " \t\r\n*>") || strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".") {
		return fmt.Errorf("is %q: it must be a NATS subject without wildcards, of at most %d characters", s, most)
	}
	return nil
}

func checkTypeName(s string) error {
	if _, err := events.ParseType(s); err != nil {
		return fmt.Errorf("has %q: %w", s, err)
	}
	return nil
}

func checkEnv(kv string) error {
	if name, _, _ := strings.Cut(kv, "="); !envPattern.MatchString(name) || strings.ContainsRune(kv, 0) {
		return fmt.Errorf("has a variable named %q: write NAME, or NAME=value, with letters, digits and _ in the name", name)
	}
	return nil
}

func checkCapability(name string) error {
	if len(name) > events.MaxCapabilityLen || !namePattern.MatchString(name) {
		return fmt.Errorf("has %q: a capability is at most %d characters of a-z and 0-9, with single - or _ between them", name, events.MaxCapabilityLen)
	}
	return nil
}

func parsePool(name string) (string, error) {
	return name, events.Limits{Pools: map[string]events.Pool{name: {Slots: 1}}}.Validate()
}

func parseUser(name string) (string, error) {
	if name == "" || len(name) > quota.MaxNameLen {
		return "", fmt.Errorf("is a name of %d bytes: use 1 to %d", len(name), quota.MaxNameLen)
	}
	return name, nil
}

func checkHTTPClients(clients []HTTPClient) error {
	if len(clients) > MaxHTTPClients {
		return fmt.Errorf("has %d elements: at most %d", len(clients), MaxHTTPClients)
	}
	var errs []error
	fail := func(i int, key, format string, args ...any) {
		errs = append(errs, &elementError{i, key, fmt.Sprintf(format, args...)})
	}
	seen := map[string]bool{}
	for i, cl := range clients {
		switch {
		case cl.Name == "" || cl.Name == access.Anyone.Name:
			fail(i, "name", "has an element %d without a name of its own", i+1)
		case !cl.Roles.Any():
			fail(i, "roles", "has an element %d (%s) without roles: use some of submit, work, read, operate and approve", i+1, cl.Name)
		case seen[cl.Name]:
			fail(i, "name", "has the name %s twice", cl.Name)
		}
		seen[cl.Name] = true
	}
	return errors.Join(errs...)
}

func checkNATSUsers(users []NATSUser) error {
	if len(users) > MaxNATSUsers {
		return fmt.Errorf("has %d elements: at most %d", len(users), MaxNATSUsers)
	}
	var errs []error
	seen := map[string]bool{}
	for i, u := range users {
		if key, err := u.check(); err != nil {
			errs = append(errs, &elementError{i, key, fmt.Sprintf("has an element %d (%s) that %v", i+1, u.Name, err)})
		}
		if seen[u.Name] || u.Nkey != "" && seen[u.Nkey] {
			errs = append(errs, &elementError{i, "name", fmt.Sprintf("has the name or nkey of its element %d (%s) twice", i+1, u.Name)})
		}
		seen[u.Name], seen[u.Nkey] = true, true
	}
	return errors.Join(errs...)
}

// check returns what is wrong with a user, and the key that says it.
func (u NATSUser) check() (key string, err error) {
	given := 0
	for _, s := range []string{u.Password, u.PasswordFile, u.Nkey} {
		if s != "" {
			given++
		}
	}
	switch {
	case !access.IsUser(u.Name):
		return "name", errors.New("has an invalid name: use letters, digits, - and _, at most 63, and not anyone")
	case given != 1:
		return "", errors.New("must have exactly one of password, password_file and nkey")
	case u.Password != "":
		if err := CheckPassword(u.Password); err != nil {
			return "password", err
		}
	case u.Nkey != "" && !nkeys.IsValidPublicUserKey(u.Nkey):
		return "nkey", errors.New("has an nkey that is no user's public key: it begins with U; nk -gen user makes one")
	}
	if !u.Roles.Any() {
		return "roles", errors.New("has no roles: use some of submit, work, read, operate and approve")
	}
	return "", nil
}

// CheckPassword refuses a password that is shorter than [MinPasswordLen], unless it
// is a bcrypt hash.
func CheckPassword(p string) error {
	if strings.HasPrefix(p, "$2") || len(p) >= MinPasswordLen {
		return nil
	}
	return fmt.Errorf("has a weak password: use %d characters or more, such as openssl rand -hex 16 makes", MinPasswordLen)
}
