package api

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// loadsTimeout bounds what a scrape waits for the engine's loop, and for NATS.
const loadsTimeout = 2 * time.Second

const priorities = int(events.MaxPriority) + 1

// itemStates are the names of all states.
var itemStates = func() (names []string) {
	for s := events.StateNone + 1; int(s) < events.NumStates; s++ {
		names = append(names, s.String())
	}
	return names
}()

var (
	descItems     = desc("items", "Items by type and state.", "type", "state")
	descQueued    = desc("queued", "Queued items by type and priority, scheduled ones among them.", "type", "priority")
	descScheduled = desc("scheduled", "Queued items that are not due yet: delayed, or in a backoff.", "type")
	descAgeOldest = desc("queue_age_oldest_seconds", "How long the first of the items that may run has been waiting; none waits: 0.", "type", "priority")
	descAgeP50    = desc("queue_age_p50_seconds", "How long half of the items that may run have been waiting at most.", "type", "priority")
	descAgeP95    = desc("queue_age_p95_seconds", "How long 95 % of the items that may run have been waiting at most.", "type", "priority")
	descAwaiting  = desc("awaiting_signal", "Items that wait for a signal, by its name; one that waits for any of several counts for each. Of the first 200 pairs of a type and a name, and of the (others) together.", "type", "signal")
	descAwaitAge  = desc("awaiting_signal_oldest_seconds", "How long the first of the items that wait for the signal has waited; none waits: 0.", "type", "signal")
	descStarving  = desc("starving", "Items that wait for more than 80 % of the time after which nothing newer can overtake them.", "type")
	descMaxQueued = desc("max_queued", "Items of the type queued or waiting at most; none for a type without a limit.", "type")
	descRunning   = desc("running", "Items claimed or running, by type and the priority that they were dispatched with.", "type", "priority")
	descReplay    = desc("dead_replayable", "Dead items that ran out of attempts on failures that may pass (reason exhausted): a replay may complete them.", "type")
	descRepaired  = desc("recoveries_recent", "What the engine has repaired within the last hour and the last day, by cause: those of recoveries_total, and ownership (it began again from the log).", "cause", "window")
	descInFlight  = desc("in_flight", "Items dispatched or running.", "type")
	descCapacity  = desc("capacity", "Items of the type dispatched or running at most.", "type")
	descUsed      = desc("capacity_used_ratio", "Part of the type's capacity that is dispatched or running, 0 to 1.", "type")
	descByWorkers = desc("type_workers", "Registered workers that serve the type and take work.", "type")
	descTypeSlots = desc("type_slots", "Slots of the workers that serve the type and take work, shared with their other types.", "type")
	descDesired   = desc("desired_workers", "Workers that the type needs: (arrivals per second + waiting items / 60 s) × mean run time / slots per worker.", "type")
	descWorkers   = desc("workers", "Workers by state; the dead are those of the last ten minutes.", "state")
	descIdle      = desc("workers_idle", "Active workers that run nothing.")
	descSlots     = desc("worker_slots", "Slots of the active workers.")
	descSlotsUsed = desc("worker_slots_used_ratio", "Part of the active workers' slots that run something, 0 to 1.")
	descLog       = desc("log_position", "Position of the last durable event. Positions are in order, and don't count events: see log_events_total.")
	descLogEvents = counterDesc("log_events_total", "Durable events over the life of the log, those that have been cut off included.")
	descProjected = desc("projected_position", "Position of the last event that queries see.")
	descLag       = desc("projection_lag_events", "Durable events that queries don't see yet.")
	descLagTime   = desc("projection_lag_seconds", "How long the projection has made no step although there are events to project; 0: there are none.")
	descIntake    = desc("intake_answered", "Last message of the intake that the log has an answer to.")
	descRejected  = counterDesc("rejected_total", "Submissions that became no item, over the life of the log.")
	descMerges    = counterDesc("merges_total", "Submissions merged into another item, over the life of the log.")
	descOwned     = desc("partition_owned", "1 if this process owns the partition.")
	descEpoch     = desc("partition_epoch", "Ownerships of the partition so far.")
	descWaits     = desc("waits", "Wait requests under way.")
	descReady     = desc("ready", "1 if the engine is ready, as /readyz says.")
	descClockBad  = desc("clock_implausible", "1 if the NATS server's clock is implausible: it is not followed, and nothing is pruned or cut.")
	descClockDiff = desc("clock_difference_seconds", "The NATS server's time less the engine's.")
	descAccepting = desc("accepting", "1 unless new work is refused for want of room.")
	descSpans     = counterDesc("trace_spans_total", "Spans of this process by what became of them: sent, failed (the receiver did not take them), dropped (the queue to it was full). None without traces.", "outcome")
	descRole      = desc("node_role", "1 for what this process is: owner of the log, or standby.", "role")
	descSince     = desc("node_role_since_seconds", "When this process took its role, in seconds since 1970.")
	descTookOver  = desc("node_took_over", "1 if this process owns the log and took it over from another: because that one handed_over (it stopped), was full, or was silent, or the log was moved here by an operator or balanced among the nodes.", "because")
	descCutOff    = desc("node_cut_off", "1 if this process stands by and hears nothing of the log, or owns it and does not reach most of the nodes.")
	descOnline    = desc("nodes_online", "Engines of the log that answered when they were last asked, this one among them.")
	descExpected  = desc("nodes_expected", "Engines that should have.")
	descDiffer    = desc("nodes_settings_differ", "Engines whose settings are not those of the owner.")
	descReplicas  = desc("stream_replicas_behind", "Servers that have less of the stream than its leader, or can't be reached; none without several servers.", "stream")
	descSpare     = desc("stream_spare_servers", "Servers of the stream that may be lost before it can't be written; below 0 it can't be now; none without several servers.", "stream")
	descRead      = desc("replicas_read_seconds", "When this process had last read the replicas on its own disk through, in seconds since 1970; none before, and without a NATS server of its own.")
	descDamaged   = desc("replicas_damaged", "1 while this process's own replica of the stream is damaged; 0: it was read, and is whole.", "stream")
	descInfo      = desc("build_info", "1, with the engine's version.", "version")
)

func (s *Service) collector() prometheus.Collector { return collector{s} }

// collector reads the engine's gauges when it is scraped.
type collector struct{ s *Service }

func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range scrapedDescs {
		out <- d
	}
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.s
	ctx, cancel := context.WithTimeout(s.ctx, loadsTimeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	types, err := s.Queries.Types()
	if err != nil {
		s.Logger.Warn("metrics lack the types", "error", err)
	}
	now := s.lookFurther(ctx, types)
	gauge(descLog, float64(s.Core.Position()))
	out <- prometheus.MustNewConstMetric(descLogEvents, prometheus.CounterValue, float64(s.Core.Events()))
	gauge(descProjected, float64(s.Queries.Applied()))
	gauge(descLag, float64(now.lag))
	gauge(descLagTime, seconds(time.Duration(boolean(now.lag > 0))*s.Metrics.behind.since(time.Now())))
	gauge(descEpoch, float64(s.Core.Epoch()))
	gauge(descOwned, boolean(now.owned))
	gauge(descWaits, float64(s.waits.count()))
	gauge(descReady, boolean(now.readiness().Ready))
	c.alarms(gauge, now.alarms())
	if st, ok := s.Core.Clock(); ok {
		gauge(descClockBad, boolean(now.clock != nil))
		gauge(descClockDiff, st.Difference.Seconds())
	}
	gauge(descAccepting, boolean(now.full == nil))
	gauge(descInfo, 1, s.Info.Version)
	if meta, err := s.Queries.Meta(); err == nil {
		gauge(descIntake, float64(meta.IntakeSeq))
		out <- prometheus.MustNewConstMetric(descRejected, prometheus.CounterValue, float64(meta.Rejected))
		out <- prometheus.MustNewConstMetric(descMerges, prometheus.CounterValue, float64(meta.Merges))
	}
	c.recoveries(gauge)
	c.workers(ctx, gauge)
	c.types(ctx, gauge, types)
	for _, w := range s.Metrics.figures.Awaited(s.Core.Now()) {
		gauge(descAwaiting, float64(w.Items), w.Type, w.Signal)
		gauge(descAwaitAge, w.Oldest.Seconds(), w.Type, w.Signal)
	}
	c.benched(gauge)
	c.streams(ctx, gauge)
	c.storage(gauge)
	c.nodes(gauge, now)
	c.spans(out)
}

// recoveries shows what was repaired lately: all causes, so that no series ends in the
// midst.
func (c collector) recoveries(out gauge) {
	_, hour, day := c.s.Metrics.figures.Recoveries(c.s.Core.Now())
	for _, cause := range wire.Recoveries {
		out(descRepaired, float64(hour[cause]), cause, "hour")
		out(descRepaired, float64(day[cause]), cause, "day")
	}
}

// replayable shows how many dead items of each type a replay may complete.
func (c collector) replayable(out gauge, types []events.TypeInfo) {
	causes, err := c.s.Queries.Causes(wire.CausesQuery{Reason: events.DeadExhausted})
	if err != nil {
		c.s.Logger.Warn("metrics lack the dead items that can be replayed", "error", err)
		return
	}
	dead := map[string]int64{}
	for _, cause := range causes.Causes {
		dead[cause.Type] += cause.Dead
	}
	for i := range types {
		out(descReplay, float64(dead[string(types[i].Type)]), string(types[i].Type))
	}
}

// spans counts this process's spans, if it makes any.
func (c collector) spans(out chan<- prometheus.Metric) {
	if c.s.Spans == nil {
		return
	}
	n := c.s.Spans()
	for outcome, count := range map[string]uint64{"sent": n.Sent, "failed": n.Failed, "dropped": n.Dropped} {
		out <- prometheus.MustNewConstMetric(descSpans, prometheus.CounterValue, float64(count), outcome)
	}
}

func (c collector) workers(ctx context.Context, out gauge) {
	byStatus := map[wire.WorkerStatus]int{}
	idle, slots, used := 0, 0, 0
	for _, w := range c.s.workers.now(ctx) {
		byStatus[w.Status]++
		if w.Status != wire.WorkerActive {
			continue
		}
		slots += w.Slots
		used += w.InFlight
		if w.InFlight == 0 {
			idle++
		}
	}
	for _, status := range wire.WorkerStatuses {
		out(descWorkers, float64(byStatus[status]), string(status))
	}
	out(descIdle, float64(idle))
	out(descSlots, float64(slots))
	out(descSlotsUsed, ratio(used, slots))
}

func (c collector) types(ctx context.Context, out gauge, types []events.TypeInfo) {
	stats, err := c.s.Stats(ctx)
	if err != nil {
		c.s.Logger.Warn("metrics lack the types", "error", err)
		return
	}
	used := c.s.Metrics.rungs.used(stats.Types)
	for i := range stats.Types {
		typeGauges(out, &stats.Types[i], used[stats.Types[i].Type])
	}
	c.replayable(out, types)
	for i := range types {
		c.protection(out, &types[i])
		c.s.Metrics.figures.Zero(types[i].Type)
	}
}

// typeGauges shows a type's figures: all states, and the priorities in used, a bit
// each; zeros too, so that no series ends in the midst.
func typeGauges(out gauge, st *wire.TypeStats, used uint16) {
	t := st.Type
	for _, state := range itemStates {
		out(descItems, float64(st.States[state]), t, state)
	}
	for p := range priorities {
		if used&(1<<p) == 0 {
			continue
		}
		label := strconv.Itoa(p)
		out(descQueued, float64(st.Queued[p]), t, label)
		out(descRunning, float64(st.Running[p]), t, label)
		a := st.AgesByPriority[p]
		out(descAgeOldest, a.Oldest.Seconds(), t, label)
		out(descAgeP50, a.P50.Seconds(), t, label)
		out(descAgeP95, a.P95.Seconds(), t, label)
	}
	out(descScheduled, float64(st.Scheduled), t)
	out(descStarving, float64(st.Starving), t)
	if st.MaxQueued > 0 {
		out(descMaxQueued, float64(st.MaxQueued), t)
	}
	out(descInFlight, float64(st.InFlight), t)
	out(descCapacity, float64(st.Capacity), t)
	out(descUsed, ratio(st.InFlight, st.Capacity), t)
	out(descByWorkers, float64(st.Workers), t)
	out(descTypeSlots, float64(st.Slots), t)
	out(descDesired, float64(st.DesiredWorkers), t)
}

func ratio(part, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}

func seconds(d time.Duration) float64 { return d.Seconds() }

// lag returns how many durable events queries don't see yet.
func (e *engine) lag() uint64 {
	m, err := e.Queries.Meta() // first, since it advances
	if err != nil {
		return 0 // it is being closed
	}
	return lacks(e.Core.Events(), m.Events)
}

// lacks returns by how much a number is below another.
func lacks(all, has uint64) uint64 { return all - min(all, has) }

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
