package api

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/streamwright/streamwright/api/figures"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const (
	// DrainWithin is the time within which a type's backlog should be worked off,
	// in the formula of desired_workers.
	DrainWithin = time.Minute
	// starvingShare is the part of the time in which an item can be overtaken
	// that it may wait before it counts as starving.
	starvingShare = 0.8
)

// statsAPI answers with figures.
type statsAPI struct {
	*engine
	workers   *workerAPI
	alarms    func(ctx context.Context, types []events.TypeInfo) []wire.Alarm
	lastLoads atomic.Pointer[map[events.Type]dispatcher.Load] // as the loop last said
}

func (a *statsAPI) handle(h *handlers) {
	projected(h, wire.APIStats, func(ctx context.Context, _ *call, _ wire.StatsRequest) (any, error) { return a.now(ctx) })
	projected(h, wire.APIPlace, a.place)
}

// Stats returns the engine's figures at a glance.
func (s *Service) Stats(ctx context.Context) (wire.StatsReply, error) { return s.stats.now(ctx) }

// Totals returns what there is and has been of each type.
func (s *Service) Totals() (map[events.Type]figures.Total, error) {
	types, err := s.Queries.Types()
	return s.Metrics.figures.Totals(types), err
}

func (a *statsAPI) now(ctx context.Context) (wire.StatsReply, error) {
	types, err := a.Queries.Types()
	if err != nil {
		return wire.StatsReply{}, err
	}
	meta, err := a.Queries.Meta()
	if err != nil {
		return wire.StatsReply{}, err
	}
	loads, err := a.loads(ctx)
	if err != nil {
		return wire.StatsReply{}, err
	}
	now := a.Core.Now()
	r := wire.StatsReply{
		Types: make([]wire.TypeStats, len(types)), Rejected: meta.Rejected, MaxQueued: a.MaxQueued, Position: wire.PositionOf(meta.Applied),
		States: map[string]int64{}, Alarms: a.alarms(ctx, types),
	}
	r.Recoveries, r.RecoveriesHour, r.RecoveriesDay = a.Metrics.figures.Recoveries(now)
	if a.Sites != nil {
		r.Sites = a.Sites()
	}
	a.workerStats(&r)
	var all figures.Tally
	for i := range types {
		st, minute, err := a.typeStats(&types[i], loads[types[i].Type], now)
		if err != nil {
			return r, err
		}
		r.Types[i] = st
		all.Add(minute)
		for state, n := range st.States {
			r.States[state] += n
		}
		r.InFlight += st.InFlight
		r.Capacity += st.Capacity
		r.Ages.Oldest.Duration = max(r.Ages.Oldest.Duration, st.Ages.Oldest.Duration)
	}
	if a.MaxRunning > 0 {
		r.Capacity = min(r.Capacity, a.MaxRunning)
	}
	r.PerSecond, r.MeanRun = rates(all, a.Metrics.figures.Span(now))
	total := a.Metrics.figures.TotalWait(now)
	r.Ages, r.Scheduled = ages(total, r.Ages.Oldest.Duration), total.Scheduled
	circuits, err := a.workers.circuits()
	for _, w := range slices.Sorted(maps.Keys(circuits)) {
		r.Circuits = append(r.Circuits, *circuits[w])
	}
	r.Attention = attention(&r, a.Core.Workers(), func(t string) int64 { return a.Metrics.figures.Died(events.Type(t), now) })
	return r, err
}

// loads asks the loop for its loads. While no engine owns the log the loop may not
// answer; the loads are then as it last said, and an alarm says so.
func (a *statsAPI) loads(ctx context.Context) (map[events.Type]dispatcher.Load, error) {
	asking, cancel := context.WithTimeout(ctx, loadsTimeout)
	defer cancel()
	loads, err := a.Core.Loads(asking)
	if err == nil {
		a.lastLoads.Store(&loads)
		return loads, nil
	}
	if last := a.lastLoads.Load(); last != nil && !a.Metrics.owned.Load() && a.standsBy() == nil && ctx.Err() == nil {
		return *last, nil
	}
	return nil, err
}

// workerStats counts the workers and their slots.
func (a *statsAPI) workerStats(r *wire.StatsReply) {
	r.WorkersByStatus = map[wire.WorkerStatus]int{}
	for _, status := range wire.WorkerStatuses {
		r.WorkersByStatus[status] = 0
	}
	for _, w := range a.Core.Workers() {
		r.WorkersByStatus[w.Status]++
		if w.Status != wire.WorkerDead {
			r.Workers++
		}
		if w.Status == wire.WorkerActive {
			r.Slots += w.Slots
		}
	}
}

// typeStats returns a type's figures, and what has happened in the last minute.
func (a *statsAPI) typeStats(t *events.TypeInfo, load dispatcher.Load, now time.Time) (wire.TypeStats, figures.Tally, error) {
	st := wire.TypeStats{
		Type: string(t.Type), States: map[string]int64{}, Queued: map[int]int64{}, InFlight: load.InFlight, Capacity: t.Settings.Capacity,
		Workers: load.Workers, Slots: load.Slots, MaxQueued: t.Settings.MaxQueued, Paused: t.Paused, Circuit: wire.FromCircuit("", t.Circuit),
	}
	for state, n := range t.Counts {
		if n != 0 {
			st.States[events.ItemState(state).String()] = n
		}
	}
	for p, n := range t.Queued {
		if n != 0 {
			st.Queued[p] = n
		}
	}
	for p, n := range load.Running {
		if st.Running == nil {
			st.Running = map[int]int{}
		}
		st.Running[int(p)] = n
	}
	minute := a.Metrics.figures.Minute(t.Type, now)
	st.PerSecond, st.MeanRun = rates(minute, a.Metrics.figures.Span(now))
	waiting, err := a.waitStats(&st, t, now)
	st.DesiredWorkers = desiredWorkers(demand{
		arrivals: float64(minute.Arrived) / a.Metrics.figures.Span(now).Seconds(), run: a.Metrics.figures.MeanRun(t.Type, now), waiting: waiting,
		running: t.Counts[events.StateClaimed] + t.Counts[events.StateRunning], capacity: t.Settings.Capacity, workers: load.Workers, slots: load.Slots,
	})
	return st, minute, err
}

// waitStats says how long a type's items wait; it returns how many do.
func (a *statsAPI) waitStats(st *wire.TypeStats, t *events.TypeInfo, now time.Time) (int64, error) {
	byPriority, all, known := a.Metrics.figures.Waits(t.Type, now)
	if !known {
		all.Waiting = t.Counts[events.StateQueued] // the count is still being taken
	}
	oldest, exact, err := a.oldest(t, byPriority, now)
	if err != nil {
		return 0, err
	}
	longest := time.Duration(0)
	for p, age := range oldest {
		longest = max(longest, age)
		if age > 0 || byPriority[p].Waiting > 0 {
			if st.AgesByPriority == nil {
				st.AgesByPriority = map[int]wire.Ages{}
			}
			st.AgesByPriority[p] = ages(byPriority[p], age)
		}
		if most := overtaken(p, t.Settings.AgeStep.Duration); most > 0 && age > most {
			st.Starving += max(a.Metrics.figures.LongerThan(t.Type, events.Priority(p), most, now), boolInt(exact))
		}
	}
	st.Ages, st.Scheduled = ages(all, longest), all.Scheduled
	st.Oldest = st.Ages.Oldest
	return all.Waiting, nil
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// oldest returns how long the first waiting item of each priority has waited, in whole
// milliseconds.
func (a *statsAPI) oldest(t *events.TypeInfo, counted [int(events.MaxPriority) + 1]figures.Wait, now time.Time) (out [int(events.MaxPriority) + 1]time.Duration, exact bool, err error) {
	if t.Counts[events.StateQueued] == 0 {
		return out, true, nil
	}
	at, exact, err := a.Queries.OldestWaiting(t.Type, now)
	for p := range out {
		switch {
		case !exact:
			out[p] = counted[p].Oldest.Truncate(time.Millisecond)
		case !at[p].IsZero():
			out[p] = max(now.Sub(at[p]), 0).Truncate(time.Millisecond)
		}
	}
	return out, exact, err
}

// ages puts what was counted beside the oldest, which nothing can be older than.
func ages(w figures.Wait, oldest time.Duration) wire.Ages {
	most := func(d time.Duration) events.Duration {
		return events.DurationOf(min(d, oldest).Truncate(time.Millisecond))
	}
	return wire.Ages{Oldest: most(oldest), P50: most(w.P50), P95: most(w.P95)}
}

// overtaken returns how long an item of a priority waits before it counts as
// starving; 0 for the highest, which nothing that comes later can overtake.
func overtaken(p int, ageStep time.Duration) time.Duration {
	return time.Duration(starvingShare * float64(int(events.MaxPriority)-p) * float64(ageStep))
}

func rates(t figures.Tally, span time.Duration) (per wire.PerSecond, meanRun events.Duration) {
	of := func(n int64) float64 { return math.Round(float64(n)/span.Seconds()*1000) / 1000 }
	if t.Completed > 0 {
		meanRun = events.DurationOf((t.RunTime / time.Duration(t.Completed)).Truncate(time.Millisecond))
	}
	return wire.PerSecond{Submitted: of(t.Submitted), Completed: of(t.Completed), Failed: of(t.Failed), Dead: of(t.Dead)}, meanRun
}

// demand holds what the number of workers that a type needs follows from.
type demand struct {
	arrivals         float64 // items queued a second
	run              time.Duration
	waiting, running int64 // items that may run; claimed or running items
	capacity         int
	workers, slots   int // that serve the type now
}

// desiredWorkers returns how many workers a type needs, by Little's law:
//
//	slots needed   = arrivals per second × mean run time
//	               + items waiting × mean run time / 60 s (DrainWithin)
//	               , at most the type's capacity
//	desired        = slots needed / slots per worker, rounded up
//
// Slots per worker is the mean of the type's present workers, 1 if it has none.
// The first term keeps up with what comes, the second works off within a minute
// what waits. It is at least 1 as long as anything waits or runs, also while no
// run time is known, and 0 when nothing waits, runs or comes.
func desiredWorkers(d demand) int {
	need := (d.arrivals + float64(d.waiting)/DrainWithin.Seconds()) * d.run.Seconds()
	need = min(need, float64(d.capacity))
	each := 1.0
	if d.workers > 0 && d.slots > d.workers {
		each = float64(d.slots) / float64(d.workers)
	}
	n := int(math.Ceil(need / each))
	if n == 0 && d.waiting+d.running > 0 {
		return 1
	}
	return n
}

// countWaits counts what is queued, and again whenever the projection was made
// anew, until the service stops.
func (a *statsAPI) countWaits() {
	for {
		if err := a.Metrics.figures.Load(a.Core.Now(), a.eachQueued); err != nil && a.ctx.Err() == nil {
			a.Logger.Warn("the ages of queued items are not known: the ready index can't be read", "error", err)
		}
		if err := a.Metrics.figures.LoadAwaited(a.Core.Now(), a.eachAwaiting); err != nil && a.ctx.Err() == nil {
			a.Logger.Warn("what waits for signals is not known: the items that wait can't be read", "error", err)
		}
		a.Metrics.figures.Begin(a.Core.Now())
		select {
		case <-a.ctx.Done():
			return
		case <-a.Metrics.again:
		}
	}
}

// eachQueued reads the ready index until the service stops.
func (a *statsAPI) eachQueued(begin func(events.Seq), count func(events.Type, events.Priority, int64) error) error {
	return a.Queries.EachQueued(begin, func(t events.Type, p events.Priority, place int64) error {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		return count(t, p, place)
	})
}

// eachAwaiting reads what waits for signals until the service stops.
func (a *statsAPI) eachAwaiting(begin func(events.Seq), count func(*events.Item) error) error {
	return a.Queries.EachAwaiting(begin, func(it *events.Item) error {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		return count(it)
	})
}
