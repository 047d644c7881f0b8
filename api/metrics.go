package api

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/streamwright/streamwright/api/figures"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// namespace begins every metric's name.
const namespace = "streamwright"

// Metrics counts what the engine does. Labels are types (at most
// events.MaxTypes), states, priorities, endpoints and error codes, so the
// number of series is bounded. It belongs to one Service and may be used by any
// goroutine.
type Metrics struct {
	registry *prometheus.Registry
	owned    atomic.Bool
	waits    *figures.Waits
	flow     *figures.Flow
	repaired recoveries
	again    chan struct{} // what waits must be counted again; room for one

	appendSeconds prometheus.Histogram
	appendEvents  prometheus.Histogram
	appended      prometheus.Counter
	appendedBytes prometheus.Counter
	dispatched    *prometheus.CounterVec
	leases        *prometheus.CounterVec
	lost          prometheus.Counter
	dead          *prometheus.CounterVec
	causes        *prometheus.CounterVec
	requests      *prometheus.CounterVec
	requestTime   *prometheus.HistogramVec
}

// NewMetrics makes the engine's metrics, with those of the Go runtime and the
// process, in a registry of their own.
func NewMetrics() *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	}
	byType := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, []string{"type"})
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(), waits: figures.NewWaits(), flow: figures.NewFlow(), again: make(chan struct{}, 1),
		appendSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "append_seconds",
			Help: "Time from handing a batch to the log until it is durable.", Buckets: prometheus.ExponentialBuckets(50e-6, 2, 16)}),
		appendEvents: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "append_events",
			Help: "Events in one appended batch.", Buckets: prometheus.ExponentialBuckets(1, 2, 13)}),
		appended:      counter("events_appended_total", "Events made durable by this process."),
		appendedBytes: counter("event_bytes_appended_total", "Bytes of events made durable by this process."),
		dispatched:    byType("dispatched_total", "Items sent to a run subject."),
		leases:        byType("leases_expired_total", "Dispatched items whose worker was silent for a lease."),
		lost:          counter("ownerships_lost_total", "Times that the ownership of the partition ended and the engine started again from the log."),
		dead: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "dead_total",
			Help: "Items that died, by reason."}, []string{"reason"}),
		causes: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "causes_noted_total",
			Help: "Causes of death that were new, or grew fast."}, []string{"why"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "requests_total",
			Help: "Requests answered, by endpoint and by error code (ok for none)."}, []string{"endpoint", "code"}),
		requestTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: "request_seconds",
			Help: "Time from a request's arrival to its reply.", Buckets: prometheus.ExponentialBuckets(100e-6, 4, 10)}, []string{"endpoint"}),
	}
	m.registry.MustRegister(m.appendSeconds, m.appendEvents, m.appended, m.appendedBytes, m.dispatched, m.leases, m.lost, m.dead, m.causes, m.requests, m.requestTime,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Hook adds the metrics to an engine's hooks; what is set there already is
// called as well.
func (m *Metrics) Hook(h dispatcher.Hooks) dispatcher.Hooks {
	appended, dispatched, expired, owned, lost, projected := h.Appended, h.Dispatched, h.LeaseExpired, h.Owned, h.Lost, h.Projected
	h.Projected = func(c *events.Changes) {
		m.projected(c)
		if projected != nil {
			projected(c)
		}
	}
	h.Appended = func(n, bytes int, took time.Duration) {
		m.appendSeconds.Observe(took.Seconds())
		m.appendEvents.Observe(float64(n))
		m.appended.Add(float64(n))
		m.appendedBytes.Add(float64(bytes))
		if appended != nil {
			appended(n, bytes, took)
		}
	}
	h.Dispatched = func(t events.Type) {
		m.dispatched.WithLabelValues(string(t)).Inc()
		if dispatched != nil {
			dispatched(t)
		}
	}
	h.LeaseExpired = func(t events.Type) {
		m.leases.WithLabelValues(string(t)).Inc()
		if expired != nil {
			expired(t)
		}
	}
	returned, renewed := h.Returned, h.Renewed
	h.Returned = func(t events.Type, why string) {
		m.repaired.add(why)
		if returned != nil {
			returned(t, why)
		}
	}
	h.Renewed = func(at events.Seq) {
		m.recount()
		if renewed != nil {
			renewed(at)
		}
	}
	h.Owned = func(e events.Epoch) {
		m.owned.Store(true)
		if owned != nil {
			owned(e)
		}
	}
	h.Lost = func(err error) {
		m.owned.Store(false)
		if err != nil {
			m.lost.Inc()
			m.repaired.add(wire.RecoveryOwnership)
		}
		if lost != nil {
			lost(err)
		}
	}
	return h
}

func (m *Metrics) request(endpoint string, code events.Code, took time.Duration) {
	m.requests.WithLabelValues(endpoint, string(code)).Inc()
	m.requestTime.WithLabelValues(endpoint).Observe(took.Seconds())
}

// recount has what waits counted again: the projection was made anew.
func (m *Metrics) recount() {
	select {
	case m.again <- struct{}{}:
	default: // it will be
	}
}

func (m *Metrics) recovered() map[string]int64 { return m.repaired.all() }

// projected takes what has become visible.
func (m *Metrics) projected(c *events.Changes) {
	m.waits.Feed(c)
	m.flow.Feed(c)
	for i := range c.History {
		if cause := recoveryOf(&c.History[i]); cause != "" {
			m.repaired.add(cause)
		}
	}
	m.deaths(c)
}

// deaths counts what has died, and what that says of its causes. The reasons
// are the engine's own, a handful.
func (m *Metrics) deaths(c *events.Changes) {
	for i := range c.History {
		if b, ok := c.History[i].Body.(*events.Dead); ok {
			m.dead.WithLabelValues(b.Reason).Inc()
		}
	}
	for i := range c.Noted {
		if b, ok := c.Noted[i].Body.(*events.CauseNoted); ok {
			m.causes.WithLabelValues(b.Why).Inc()
		}
	}
}
