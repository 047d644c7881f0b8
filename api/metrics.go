package api

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/api/figures"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// Metrics counts what the engine does. Labels are types (at most
// events.MaxTypes), states, priorities, endpoints and error codes of the
// engine's own, so the number of series is bounded. Counters begin at 0 with the
// process: what it reads of the log's past is not counted. It belongs to one
// Service and may be used by any goroutine.
type Metrics struct {
	registry *prometheus.Registry
	process  *prometheus.Registry // of the Go runtime and the process
	catalogue
	figures *figures.Figures // what follows from the projection
	owned   atomic.Bool
	again   chan struct{} // what waits must be counted again; room for one
	rungs   rungs
	behind  behind
	role    role
	foreign foreign

	appendSeconds prometheus.Observer
	appendEvents  prometheus.Observer
	appended      prometheus.Counter
	appendedBytes prometheus.Counter
	lost          prometheus.Counter
	takeovers     prometheus.Counter
	fenced        prometheus.Counter
	foreigners    prometheus.Counter
	workersFailed *prometheus.CounterVec
	quotas        *prometheus.CounterVec
	requests      *prometheus.CounterVec
	requestTime   *prometheus.HistogramVec
	refused       *prometheus.CounterVec
}

// NewMetrics makes the engine's metrics, and the Go runtime's and the process's, in
// registries of their own.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), process: prometheus.NewRegistry(), again: make(chan struct{}, 1)}
	c := &m.catalogue
	register := func(list ...prometheus.Collector) { m.registry.MustRegister(list...) }
	counter := func(name, help string) prometheus.Counter {
		v := c.counter(name, help)
		register(v)
		return v.WithLabelValues()
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := c.counter(name, help, labels...)
		register(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := c.histogram(name, help, buckets, labels...)
		register(v)
		return v
	}
	m.appendSeconds = histogram("append_seconds", "Time from handing a batch to the log until it is durable.", prometheus.ExponentialBuckets(50e-6, 2, 16)).WithLabelValues()
	m.appendEvents = histogram("append_events", "Events in one appended batch.", prometheus.ExponentialBuckets(1, 2, 13)).WithLabelValues()
	m.appended = counter("events_appended_total", "Events made durable by this process.")
	m.appendedBytes = counter("event_bytes_appended_total", "Bytes of events made durable by this process.")
	m.lost = counter("ownerships_lost_total", "Times that the ownership of the partition ended and the engine started again from the log.")
	m.takeovers = counter("takeovers_total", "Times that this process became the owner of the log after it had stood by for another: fail-overs and planned ones.")
	m.fenced = counter("fences_total", "Appends that the log refused, since another process had appended: part of ownerships_lost_total.")
	m.foreigners = counter("log_foreign_messages_total", "Messages in the event log that no engine wrote. Readers skip them; one that comes in the way of an append ends the ownership.")
	m.workersFailed = vec("worker_failures_total", "Signs that a worker is not well: heartbeat (silent for so long that it counts as dead), probe (a probe had no good answer).", "reason")
	for _, reason := range []string{dispatcher.WorkerSilent, dispatcher.WorkerProbe} {
		m.workersFailed.WithLabelValues(reason)
	}
	m.quotas = vec("quota_refusals_total", "Requests and plain publishes refused since their user was at its quota, by the user's roles and by the limit.", "roles", "limit")
	m.requests = vec("requests_total", "Requests answered, by endpoint and by error code (ok for none).", "endpoint", "code")
	m.requestTime = histogram("request_seconds", "Time from a request's arrival to its reply.", prometheus.ExponentialBuckets(100e-6, 4, 10), "endpoint")
	m.refused = vec("requests_refused_total", "Messages on requests' subjects that no client sends, and that were not executed, by reason: subject (stored under another), header (one that only the NATS server writes), no_reply, reply_subject (the engine's or the server's own).", "reason")
	for _, reason := range refusals {
		m.refused.WithLabelValues(reason)
	}
	m.figures = figures.New(vec, histogram)
	m.process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// QuotaRefused counts a refusal.
func (m *Metrics) QuotaRefused(roles access.Roles, limit string) {
	m.quotas.WithLabelValues(roles.String(), limit).Inc()
}

// CountFrom excludes the log's events up to a position, which happened before this
// process, from the counts. Call it before the engine starts.
func (m *Metrics) CountFrom(seq events.Seq) {
	m.figures.CountFrom(seq)
	m.foreign.seq = seq.Frame()
}

// Foreign notes a message in the log that no engine wrote. Those that were noted before are
// not counted again.
func (m *Metrics) Foreign(seq uint64) {
	if m.foreign.note(seq, time.Now()) {
		m.foreigners.Inc()
	}
}

// foreign counts messages in the log that no engine wrote.
type foreign struct {
	mu  sync.Mutex // guards what follows
	seq uint64     // of the last
	at  time.Time  // when that was seen
	n   int64
}

// note reports whether a message is new.
func (f *foreign) note(seq uint64, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seq <= f.seq {
		return false
	}
	f.seq, f.at = seq, now
	f.n++
	return true
}

// foreignFor is the time for which an alarm tells of the last message.
const foreignFor = 10 * time.Minute

// lately returns how many messages there were and the sequence of the last; 0: none came
// lately.
func (f *foreign) lately(now time.Time) (n int64, last uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == 0 || now.Sub(f.at) > foreignFor {
		return 0, 0
	}
	return f.n, f.seq
}

// TypeHistograms bounds the types with histograms of their own. Call it before the engine
// starts.
func (m *Metrics) TypeHistograms(most int) { m.figures.TypeHistograms(most) }

// Hook adds the metrics to an engine's hooks; hooks that are already set are called
// afterwards.
func (m *Metrics) Hook(h dispatcher.Hooks) dispatcher.Hooks {
	o := h
	h.Projected = func(c *core.Changes) {
		m.behind.projected(time.Now())
		m.figures.Feed(c)
		tellOf(o.Projected, c)
	}
	h.Appended = func(n, bytes int, took time.Duration) {
		m.behind.appended(time.Now())
		m.appendSeconds.Observe(took.Seconds())
		m.appendEvents.Observe(float64(n))
		m.appended.Add(float64(n))
		m.appendedBytes.Add(float64(bytes))
		if o.Appended != nil {
			o.Appended(n, bytes, took)
		}
	}
	h.Dispatched = func(t events.Type) { m.figures.Dispatched(t); tellOf(o.Dispatched, t) }
	h.LeaseExpired = func(t events.Type) { m.figures.LeaseExpired(t); tellOf(o.LeaseExpired, t) }
	h.Returned = func(t events.Type, why string) {
		m.figures.Repaired(t, why, time.Now())
		if o.Returned != nil {
			o.Returned(t, why)
		}
	}
	h.WorkerFailed = func(reason string) {
		m.workersFailed.WithLabelValues(reason).Inc()
		tellOf(o.WorkerFailed, reason)
	}
	h.Renewed = func(at events.Seq) { m.recount(); tellOf(o.Renewed, at) }
	h.Owned = func(e events.Epoch) {
		m.owned.Store(true)
		if m.role.owns(time.Now()) {
			m.takeovers.Inc()
		}
		tellOf(o.Owned, e)
	}
	h.StandingBy = func(owner string) { m.role.standsBy(owner, time.Now()); tellOf(o.StandingBy, owner) }
	h.Lost = func(err error) { m.ownershipLost(err); tellOf(o.Lost, err) }
	return h
}

func tellOf[T any](fn func(T), v T) {
	if fn != nil {
		fn(v)
	}
}

// ownershipLost counts an ownership that did not end by a stop.
func (m *Metrics) ownershipLost(err error) {
	m.owned.Store(false)
	if err == nil {
		return
	}
	m.lost.Inc()
	m.figures.Repaired("", wire.RecoveryOwnership, time.Now())
	if errors.Is(err, eventlog.ErrFenced) {
		m.fenced.Inc()
	}
}

func (m *Metrics) request(endpoint string, code events.Code, took time.Duration) {
	m.requests.WithLabelValues(endpoint, string(code)).Inc()
	m.requestTime.WithLabelValues(endpoint).Observe(took.Seconds())
}

func (m *Metrics) requestRefused(reason string) { m.refused.WithLabelValues(reason).Inc() }

// recount has what waits counted again: the projection was made anew.
func (m *Metrics) recount() {
	select {
	case m.again <- struct{}{}:
	default: // it will be
	}
}

// rungs remembers at which priorities each type was seen to wait or run.
type rungs struct {
	mu   sync.Mutex
	seen map[string]uint16 // a bit for each priority
}

// used returns the priorities to show of some types: those at which something waits or
// runs, or did at an earlier scrape, so that no series ends in the midst; and the default
// one. Types that are not among them are forgotten.
func (r *rungs) used(types []wire.TypeStats) map[string]uint16 {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := make(map[string]uint16, len(types))
	for i := range types {
		st := &types[i]
		bits := r.seen[st.Type] | 1<<events.PriorityDefault
		for p := range st.Queued {
			bits |= 1 << p
		}
		for p := range st.Running {
			bits |= 1 << p
		}
		for p := range st.AgesByPriority {
			bits |= 1 << p
		}
		now[st.Type] = bits
	}
	r.seen = now
	return now
}

// behind says since when durable events wait for the projection.
type behind struct {
	first, progress atomic.Int64 // nanoseconds since 1970: the first append since the projection's last step, and that step
}

func (b *behind) appended(now time.Time) {
	if b.first.Load() <= b.progress.Load() {
		b.first.Store(now.UnixNano())
	}
}

func (b *behind) projected(now time.Time) { b.progress.Store(now.UnixNano()) }

// since returns how long the projection has made no step although there is one to make.
func (b *behind) since(now time.Time) time.Duration {
	at := max(b.first.Load(), b.progress.Load())
	if at == 0 {
		return 0
	}
	return max(now.Sub(time.Unix(0, at)), 0)
}

// namespace begins every metric's name.
const namespace = "streamwright"

// MetricInfo is a metric that the engine exports, whether it has samples or not.
type MetricInfo struct {
	Name   string
	Type   string // counter, gauge, histogram
	Help   string
	Labels []string
}

// catalogue collects what is described.
type catalogue []MetricInfo

func (c *catalogue) add(kind, name, help string, labels []string) string {
	*c = append(*c, MetricInfo{Name: namespace + "_" + name, Type: kind, Help: help, Labels: labels})
	return name
}

func (c *catalogue) counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: c.add("counter", name, help, labels), Help: help}, labels)
}

func (c *catalogue) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: c.add("histogram", name, help, labels), Help: help, Buckets: buckets}, labels)
}

// scraped lists the metrics that are read at each scrape.
var scraped catalogue

// scrapedDescs are their descriptions.
var scrapedDescs []*prometheus.Desc

func desc(name, help string, labels ...string) *prometheus.Desc {
	return described("gauge", name, help, labels)
}

func counterDesc(name, help string, labels ...string) *prometheus.Desc {
	return described("counter", name, help, labels)
}

func described(kind, name, help string, labels []string) *prometheus.Desc {
	d := prometheus.NewDesc(namespace+"_"+scraped.add(kind, name, help, labels), help, labels, nil)
	scrapedDescs = append(scrapedDescs, d)
	return d
}

// Catalogue lists the engine's own metrics by name, without the metrics of the Go
// runtime and the process (go_*, process_*).
func Catalogue() []MetricInfo {
	all := slices.Concat(NewMetrics().catalogue, scraped)
	slices.SortFunc(all, func(a, b MetricInfo) int { return strings.Compare(a.Name, b.Name) })
	return all
}
