package wire

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/streamwright/streamwright/events"
)

// Names spells the subjects and streams of one namespace of an engine. Subjects begin with
// Prefix, streams with Prefix in capitals. Domain is the JetStream domain that has the
// streams; it is empty if that is the domain of the connected server.
//
// The prefix of the default namespace is the engine's own. That of another is the engine's,
// a hyphen, and its name: "work-acme". An engine's prefix has no hyphen, so no two namespaces
// have the same names.
type Names struct{ Prefix, Domain string }

// Default are the names under the prefix "work".
var Default = Names{Prefix: "work"}

// WithPrefix returns the names under a prefix, "work" if it is empty.
func WithPrefix(p string) Names {
	if p == "" {
		return Default
	}
	return Names{Prefix: p}
}

// Namespace returns the names of a namespace of the same engine.
func (n Names) Namespace(ns events.Namespace) Names {
	n.Prefix = n.root()
	if ns != events.DefaultNamespace {
		n.Prefix += "-" + string(ns)
	}
	return n
}

// InNamespace returns the namespace whose names these are.
func (n Names) InNamespace() events.Namespace {
	_, ns, _ := strings.Cut(n.Prefix, "-")
	return cmp.Or(events.Namespace(ns), events.DefaultNamespace)
}

// root is the prefix of the engine's default namespace.
func (n Names) root() string {
	root, _, _ := strings.Cut(n.Prefix, "-")
	return root
}

// In returns the names with the streams in a JetStream domain.
func (n Names) In(domain string) Names {
	n.Domain = domain
	return n
}

// JetStream is the subject of a request to the JetStream that has the streams,
// such as "STREAM.INFO.WORK_LOGS".
func (n Names) JetStream(request string) string {
	if n.Domain == "" {
		return "$JS.API." + request
	}
	return "$JS." + n.Domain + ".API." + request
}

// ImportDomain is the JetStream domain under which accounts other than the
// engine's import its streams, those of all namespaces: the engine's prefix, as one word.
func (n Names) ImportDomain() string { return strings.ReplaceAll(n.root(), ".", "_") }

// Entries returns the prefix of the subjects to which a bucket's entries are
// published. With a Domain, the server maps them to the subjects of the bucket's
// stream.
func (n Names) Entries(bucket string) string {
	entries := "$KV." + n.Bucket(bucket) + "."
	if n.Domain == "" {
		return entries
	}
	return n.JetStream(entries)
}

// Account is the NATS account that has the streams, those of all namespaces, and that the
// engine is in, where its users have accounts of their own.
func (n Names) Account() string { return strings.ToUpper(n.ImportDomain()) }

// UserAccount is the NATS account of one user.
func (n Names) UserAccount(user string) string { return n.Account() + "_" + user }

// Imported returns the names as a user's account has them, which imports the
// streams' API under ImportDomain: the server itself answers $JS.API in an
// account without JetStream.
func (n Names) Imported() Names { return n.In(n.ImportDomain()) }

func (n Names) stream(s string) string {
	return strings.ToUpper(strings.ReplaceAll(n.Prefix, ".", "_")) + "_" + s
}

func (n Names) subject(parts ...string) string { return n.Prefix + "." + strings.Join(parts, ".") }

// IntakeStream is the durable inbox of plain publishes.
func (n Names) IntakeStream() string { return n.stream("INTAKE") }

// EventStream is the log of partition p.
func (n Names) EventStream(p int) string { return n.stream("EVENTS_" + strconv.Itoa(p)) }

// SiteStream is the intake of a site (see [Names.Site]): it holds what was published there
// and is not decided yet.
func (n Names) SiteStream(site string) string { return n.stream("EDGE_" + site) }

// Site returns the names with the streams of a site, whose JetStream domain has its name.
func (n Names) Site(site string) Names { return n.In(site) }

// DispatchStream holds the messages of ack types (see [events.ProtocolAck]) whose outcome
// is not yet recorded.
func (n Names) DispatchStream() string { return n.stream("DISPATCH") }

// DispatchAckStream captures what the workers of ack types answer, as they have sent it,
// and the server's report of each answer, and of those that did not come in time.
func (n Names) DispatchAckStream() string { return n.stream("DISPATCH_ACKS") }

// AckRun is the subject to which items of an ack type are dispatched; t may be "*".
func (n Names) AckRun(t events.Type) string { return n.subject("run", string(t)) }

// RunAll matches every subject on which items are handed out.
func (n Names) RunAll() string { return n.subject("run", ">") }

// DispatchAcks are the subjects that DispatchAckStream captures. The first matches what
// workers send.
func (n Names) DispatchAcks() []string {
	s := n.DispatchStream()
	return []string{
		"$JS.ACK." + s + ".>",
		"$JS.EVENT.METRIC.CONSUMER.ACK." + s + ".*",
		"$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED." + s + ".*",
		"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED." + s + ".*",
		"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + s + ".*",
	}
}

// LogStream holds the items' logs.
func (n Names) LogStream() string { return n.stream("LOGS") }

// OutputStream holds what items' runs write while they run.
func (n Names) OutputStream() string { return n.stream("OUTPUT") }

// Submit is the subject for plain publishes of items of type t.
func (n Names) Submit(t events.Type) string { return n.subject("submit", string(t)) }

// SubmitAll matches every Submit subject.
func (n Names) SubmitAll() string { return n.subject("submit", "*") }

// Intake is the stored form of a submission for partition p; t may be "*".
func (n Names) Intake(p int, t string) string { return n.subject("intake", strconv.Itoa(p), t) }

// Door is where an embedded server leads plain publishes while its engine decides them at
// once; t may be "*". Who may publish to Submit may publish here: the server checks both.
func (n Names) Door(t string) string { return n.subject("door", t) }

// directIntake is above every sequence of the intake stream, and below 2^53, as JSON
// readers need.
const directIntake = 1 << 52

// DirectIntake is the handle of a plain publish that was decided at once: the sequence in
// its ack. at is the position of the event that answers it.
func DirectIntake(at events.Seq) uint64 { return directIntake + uint64(at) }

// DirectPosition returns the position in a handle made by DirectIntake; false if it is a
// sequence of the intake stream.
func DirectPosition(handle uint64) (at events.Seq, direct bool) {
	return events.Seq(handle - directIntake), handle > directIntake
}

// Frame is the subject of the log's frames of partition p.
func (n Names) Frame(p int) string { return n.subject("frame", strconv.Itoa(p)) }

// FrameAll matches every Frame subject.
func (n Names) FrameAll() string { return n.subject("frame", "*") }

// Event is the subject on which an event of partition p is told once it is durable; an
// empty type is spelled _.
func (n Names) Event(p int, t events.Type, k events.Kind) string {
	if t == "" {
		t = events.NoType
	}
	return n.subject("event", strconv.Itoa(p), string(t), k.String())
}

// EventFilter matches events; "*" for any.
func (n Names) EventFilter(p, t, k string) string { return n.subject("event", p, t, k) }

// EventAll matches every Event subject.
func (n Names) EventAll() string { return n.subject("event", ">") }

// Log is the subject of an item's log.
func (n Names) Log(t events.Type, id events.ID) string {
	return n.subject("log", string(t), id.String())
}

// LogAll matches every Log subject.
func (n Names) LogAll() string { return n.subject("log", "*", "*") }

// Output is the subject of an item's output.
func (n Names) Output(t events.Type, id events.ID) string {
	return n.subject("output", string(t), id.String())
}

// OutputOf returns the item whose output has a subject.
func (n Names) OutputOf(subject string) (events.ID, error) {
	return events.ParseID(subject[strings.LastIndexByte(subject, '.')+1:])
}

// OutputAll matches every Output subject.
func (n Names) OutputAll() string { return n.subject("output", "*", "*") }

// Control is the subject on which a worker receives cancels and drains.
func (n Names) Control(w events.WorkerID) string { return n.subject("control", string(w)) }

// ControlAll is the subject on which all workers hear that an engine has become the owner,
// which does not know them yet. No worker has such an id.
func (n Names) ControlAll() string { return n.subject("control", "_all") }

// Probe is the subject on which a worker that registered with Probe receives the
// engine's probes.
func (n Names) Probe(w events.WorkerID) string { return n.subject("probe", string(w)) }

// RunOf is the subject on which a session of a worker receives items of a type.
func (n Names) RunOf(t events.Type, session string) string {
	return n.subject("run", string(t), session)
}

// RunsOf matches the subjects on which a session receives items.
func (n Names) RunsOf(session string) string { return n.subject("run", "*", session) }

// RunOfAll matches every RunOf subject.
func (n Names) RunOfAll() string { return n.subject("run", "*", "*") }

// API is the subject of a request, such as "submit".
func (n Names) API(endpoint string) string { return n.subject("api", endpoint) }

// Lease returns the subject on which the owner of a partition says that it is there, and
// that it gives the lease away.
func (n Names) Lease(p int) string { return n.subject("lease", strconv.Itoa(p)) }

// Pulse returns the subject on which the engine with a data folder answers, with nothing,
// for as long as it is connected.
func (n Names) Pulse(p int, node string) string { return n.subject("lease", strconv.Itoa(p), node) }

// Held returns the subject on which every engine that holds the namespace answers, with nothing.
func (n Names) Held() string { return n.subject("lease", "held") }

// MirrorAsk returns the subject on which the hub answers a site that mirrors the log.
func (n Names) MirrorAsk(site string) string { return n.subject("mirror", "ask", site) }

// MirrorFeed begins the subjects on which the hub sends a site what it mirrors.
func (n Names) MirrorFeed(site string) string { return n.subject("mirror", "feed", site) }

// MirrorOrigin begins the subjects on which the NATS server of a mirror asks for what it
// mirrors. They do not leave that server.
func (n Names) MirrorOrigin() string { return n.subject("mirror", "origin") }

// MirrorAll matches all of these subjects.
func (n Names) MirrorAll() string { return n.subject("mirror", ">") }

// Nodes returns the subject on which every engine of the log says how it is.
func (n Names) Nodes() string { return n.subject("nodes") }

// Forward returns the subject on which the owner of the log answers what other
// nodes forward to it: requests that those have authorised.
func (n Names) Forward(endpoint string) string { return n.subject("forward", endpoint) }

// Bucket names a KV bucket: dedup, workers or partitions.
func (n Names) Bucket(s string) string {
	return strings.NewReplacer(".", "_").Replace(n.Prefix) + "_" + s
}

// Service is the name of the NATS micro service.
const Service = "streamwright"

// The headers of submissions and dispatched messages.
const (
	HeaderID                = "Work-Id"
	HeaderType              = "Work-Type"
	HeaderPriority          = "Work-Priority"
	HeaderDedupKey          = "Work-Dedup-Key"
	HeaderIdempotencyKey    = "Work-Idempotency-Key"
	HeaderAvailableAt       = "Work-Available-At"
	HeaderDelay             = "Work-Delay"
	HeaderMaxAttempts       = "Work-Max-Attempts"
	HeaderTimeout           = "Work-Timeout"
	HeaderCapabilities      = "Work-Capabilities"
	HeaderSource            = "Work-Source"
	HeaderTrigger           = "Work-Trigger"
	HeaderTenant            = "Work-Tenant"
	HeaderLabels            = "Work-Labels"
	HeaderTrace             = "traceparent"
	HeaderAfter             = "Work-After" // ids, with commas between them
	HeaderAfterPolicy       = "Work-After-Policy"
	HeaderDedupPolicy       = "Work-Dedup-Policy"
	HeaderDedupWindow       = "Work-Dedup-Window"       // Go duration
	HeaderExpiresAt         = "Work-Expires-At"         // RFC 3339
	HeaderEstimatedDuration = "Work-Estimated-Duration" // Go duration
	HeaderBatch             = "Work-Batch"              // id of the batch that it belongs to

	HeaderPosition = "Work-Position" // of an event told on the live feed
	HeaderPrevious = "Work-Previous" // of the event before it in the log; 0: not known, since an owner has just begun

	HeaderAttempt  = "Work-Attempt"
	HeaderToken    = "Work-Token"
	HeaderLease    = "Work-Lease"    // Go duration
	HeaderDeadline = "Work-Deadline" // Go duration that the attempt may take from its start

	HeaderOutputNumber = "Work-Output-Number" // of a chunk in its run, from 1: a new run begins
	HeaderOutputOffset = "Work-Output-Offset" // bytes that the run has written before
	HeaderOutputCut    = "Work-Output-Cut"    // "1": the output has reached its bound
)
