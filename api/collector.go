package api

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// loadsTimeout bounds what a scrape waits for the engine's loop.
const loadsTimeout = 2 * time.Second

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

var (
	descItems     = desc("items", "Items by type and state.", "type", "state")
	descQueued    = desc("queued", "Queued items by type and priority.", "type", "priority")
	descInFlight  = desc("in_flight", "Items dispatched or running.", "type")
	descCapacity  = desc("capacity", "Items of the type dispatched or running at most.", "type")
	descByWorkers = desc("type_workers", "Registered workers that serve the type.", "type")
	descWorkers   = desc("workers", "Workers by state; the dead are those of the last ten minutes.", "state")
	descLog       = desc("log_position", "Last durable event.")
	descProjected = desc("projected_position", "Last event that queries see.")
	descLag       = desc("projection_lag_events", "Durable events that queries don't see yet.")
	descRejected  = desc("rejected_total", "Submissions that became no item, over the life of the log.")
	descMerges    = desc("merges_total", "Submissions merged into another item, over the life of the log.")
	descOwned     = desc("partition_owned", "1 if this process owns the partition.")
	descEpoch     = desc("partition_epoch", "Ownerships of the partition so far.")
	descWaits     = desc("waits", "Wait requests under way.")
)

func (s *Service) collector() prometheus.Collector { return collector{s} }

// collector reads the engine's gauges when it is scraped.
type collector struct{ s *Service }

func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descItems, descQueued, descInFlight, descCapacity, descByWorkers, descWorkers, descLog, descProjected, descLag, descRejected, descMerges, descOwned, descEpoch, descWaits, descPaused, descCircuit, descBenched} {
		out <- d
	}
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.s
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	pos, applied := s.Core.Position(), s.Queries.Applied()
	gauge(descLog, float64(pos))
	gauge(descProjected, float64(applied))
	gauge(descLag, float64(lag(pos, applied)))
	gauge(descEpoch, float64(s.Core.Epoch()))
	gauge(descOwned, boolean(s.Metrics.owned.Load()))
	gauge(descWaits, float64(s.waits.count()))
	if meta, err := s.Queries.Meta(); err == nil {
		out <- prometheus.MustNewConstMetric(descRejected, prometheus.CounterValue, float64(meta.Rejected))
		out <- prometheus.MustNewConstMetric(descMerges, prometheus.CounterValue, float64(meta.Merges))
	}
	byStatus := map[wire.WorkerStatus]int{}
	for _, w := range s.Core.Workers() {
		byStatus[w.Status]++
	}
	for _, status := range wire.WorkerStatuses {
		gauge(descWorkers, float64(byStatus[status]), string(status))
	}
	c.types(gauge)
}

func (c collector) types(gauge func(*prometheus.Desc, float64, ...string)) {
	types, err := c.s.Queries.Types()
	if err != nil {
		c.s.Logger.Warn("metrics lack the types", "error", err)
		return
	}
	for _, t := range types {
		for state, n := range t.Counts {
			if state != int(events.StateNone) {
				gauge(descItems, float64(n), string(t.Type), events.ItemState(state).String())
			}
		}
		for p, n := range t.Queued {
			gauge(descQueued, float64(n), string(t.Type), strconv.Itoa(p))
		}
		gauge(descCapacity, float64(t.Settings.Capacity), string(t.Type))
		c.protection(gauge, &t)
	}
	c.benched(gauge)
	ctx, cancel := context.WithTimeout(c.s.ctx, loadsTimeout)
	defer cancel()
	loads, err := c.s.Core.Loads(ctx)
	if err != nil {
		c.s.Logger.Warn("metrics lack the loads", "error", err)
		return
	}
	for t, l := range loads {
		gauge(descInFlight, float64(l.InFlight), string(t))
		gauge(descByWorkers, float64(l.Workers), string(t))
	}
}

// lag is how far the projection is behind the log.
func lag(pos, applied events.Seq) uint64 {
	if applied >= pos {
		return 0
	}
	return uint64(pos - applied)
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
