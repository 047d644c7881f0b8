package figures

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// Window is the time that rates and means are taken over.
const Window = time.Minute

// DeathsWithin is the time for which a death counts as recent.
const DeathsWithin = 10 * time.Minute

const (
	deathStep = 30 * time.Second
	day       = 24 * time.Hour
)

const ringSeconds = int64(Window/time.Second) + 1

// Figures counts the changes in the projection. Feed is called by one goroutine at a
// time, with the batches in order; all else may be used by any goroutine.
type Figures struct {
	vectors
	from events.Seq // events up to here are not counted in the vectors

	mu    sync.Mutex
	began time.Time // zero: nothing was counted yet
	types map[events.Type]*typeFigures
	waits
	awaits awaits

	// The items of a batch, by id. Owned by Feed.
	lives []life
	index map[events.ID]int32

	repairs  sync.Mutex
	repaired map[string]*repaired // by cause (wire.Recoveries); guarded by repairs
}

// New makes Figures whose metrics counter and histogram make.
func New(counter func(name, help string, labels ...string) *prometheus.CounterVec, histogram func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec) *Figures {
	return &Figures{
		vectors: newVectors(counter, histogram), types: map[events.Type]*typeFigures{},
		index: map[events.ID]int32{}, repaired: map[string]*repaired{},
	}
}

// typeFigures holds the figures of one type.
type typeFigures struct {
	total   Tally // since the process began
	seconds [ringSeconds]second
	deaths  window
	// run is a moving mean of the runs, in which the last 32 or so weigh most.
	run    time.Duration
	queues queues
	handles
}

// of returns a type's figures; nil if there are too many types. REQUIRES: mu is held.
func (f *Figures) of(name events.Type) *typeFigures {
	t := f.types[name]
	if t == nil && len(f.types) < events.MaxTypes {
		t = &typeFigures{deaths: newWindow(DeathsWithin, deathStep)}
		f.types[name] = t
	}
	return t
}

// CountFrom excludes events up to a position, which happened before this
// process, from the metrics. It is called before the first Feed.
func (f *Figures) CountFrom(seq events.Seq) { f.from = seq }

// TypeHistograms bounds the types with histograms of their own: the first that are used.
// The others are counted together, under TypesTogether. It is called before the first
// Feed; without it all types have their own.
func (f *Figures) TypeHistograms(most int) { f.most = most }

// Begin sets the time when the engine has begun: what is younger than a minute
// is counted from there. Only the first call counts.
func (f *Figures) Begin(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.began.IsZero() {
		f.began = now
	}
}

// Feed counts what a batch has changed.
func (f *Figures) Feed(c *core.Changes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range c.Forgotten { // first: one that has come back since starts afresh
		delete(f.types, name)
		f.forget(name)
	}
	f.wait(c)
	f.awaits.feed(c)
	f.enter(c)
	newest := c.Meta.LastAt.Unix()
	for i := range c.History {
		ev := &c.History[i]
		t := f.of(ev.Type)
		if t == nil {
			continue
		}
		t.count(ev, newest)
		if at, ok := f.index[ev.ID]; ok {
			f.step(t, &f.lives[at], ev)
		}
		if cause := recoveryOf(ev); cause != "" && ev.Seq > f.from {
			f.Repaired(ev.Type, cause, ev.At)
		}
	}
	f.others(c)
	for _, name := range c.Forgotten { // its last events have counted
		if !slices.ContainsFunc(c.Types, func(t events.TypeInfo) bool { return t.Type == name }) {
			delete(f.types, name)
		}
	}
}

// repaired counts what was repaired for one cause.
type repaired struct {
	all  int64
	last window
}

// Dispatched counts an item that was sent to a run subject.
func (f *Figures) Dispatched(t events.Type) { f.dispatched.WithLabelValues(string(t)).Inc() }

// LeaseExpired counts a run whose worker was silent for a lease.
func (f *Figures) LeaseExpired(t events.Type) { f.expired.WithLabelValues(string(t)).Inc() }

// Repaired counts something that the engine has repaired at a time; t is empty for
// what is no type's.
func (f *Figures) Repaired(t events.Type, cause string, at time.Time) {
	f.repairs.Lock()
	r := f.repaired[cause]
	if r == nil {
		r = &repaired{last: newWindow(day, time.Minute)}
		f.repaired[cause] = r
	}
	r.all++
	r.last.add(at)
	f.repairs.Unlock()
	if t != "" {
		f.recoveries.WithLabelValues(string(t), cause).Inc()
	}
}

// Recoveries returns how often something was repaired, by cause: since the process
// began, in the last hour, and in the last day.
func (f *Figures) Recoveries(now time.Time) (all, lastHour, lastDay map[string]int64) {
	f.repairs.Lock()
	defer f.repairs.Unlock()
	all, lastHour, lastDay = map[string]int64{}, map[string]int64{}, map[string]int64{}
	for cause, r := range f.repaired {
		all[cause] = r.all
		if n := r.last.since(now, time.Hour); n > 0 {
			lastHour[cause] = n
		}
		if n := r.last.since(now, day); n > 0 {
			lastDay[cause] = n
		}
	}
	return all, lastHour, lastDay
}

// recoveryOf returns what an event repairs, empty for nothing.
func recoveryOf(ev *events.Event) string {
	switch b := ev.Body.(type) {
	case *events.Failed:
		switch b.Code {
		case events.FailLeaseExpired:
			return wire.RecoveryLeaseExpired
		case events.FailTimeout:
			return wire.RecoveryTimeout
		}
	case *events.Released:
		if b.Reason == "not_started" {
			return wire.RecoveryNotStarted
		}
	}
	return ""
}

// Tally holds what has happened to a type's items.
type Tally struct {
	Submitted int64 // created items
	Arrived   int64 // times that an item was queued: submitted, retried, put back, replayed
	Completed int64 // runs
	Failed    int64 // runs
	Dead      int64 // items
	// RunTime is the time spent in completed runs, AllRunTime the time spent in
	// failed ones as well.
	RunTime, AllRunTime time.Duration
}

// Add adds what has happened to others.
func (t *Tally) Add(o Tally) {
	t.Submitted += o.Submitted
	t.Arrived += o.Arrived
	t.Completed += o.Completed
	t.Failed += o.Failed
	t.Dead += o.Dead
	t.RunTime += o.RunTime
	t.AllRunTime += o.AllRunTime
}

// second is the Tally of a second since 1970.
type second struct {
	at int64
	Tally
}

// runWeight says how little a run counts in the moving mean.
const runWeight = 32

// count adds an event to the totals and, unless it is older than the ring, to its
// second and the mean run.
func (t *typeFigures) count(ev *events.Event, newest int64) {
	var n Tally
	switch b := ev.Body.(type) {
	case *events.Created:
		n.Submitted = 1
	case *events.Queued, *events.Released, *events.Snoozed, *events.Replayed:
		n.Arrived = 1
	case *events.Completed:
		took := b.Duration.Duration
		n.Completed, n.RunTime, n.AllRunTime = 1, took, took
	case *events.Failed:
		n.Failed, n.AllRunTime = 1, b.Duration.Duration
	case *events.Dead:
		n.Dead = 1
	default:
		return
	}
	t.total.Add(n)
	if n.Dead > 0 {
		t.deaths.add(ev.At)
	}
	sec := ev.At.Unix()
	if newest-sec >= ringSeconds {
		return
	}
	s := &t.seconds[uint64(sec)%uint64(ringSeconds)]
	if s.at != sec {
		*s = second{at: sec}
	}
	s.Add(n)
	switch {
	case n.Completed+n.Failed == 0:
	case t.run == 0:
		t.run = n.AllRunTime
	default:
		t.run += (n.AllRunTime - t.run) / runWeight
	}
}

// minute sums the ring up. sec is the present second.
func (t *typeFigures) minute(sec int64) (sum Tally) {
	for i := range t.seconds {
		if s := &t.seconds[i]; s.at <= sec && sec-s.at < int64(Window/time.Second) {
			sum.Add(s.Tally)
		}
	}
	return sum
}

// Total holds how many items of a type there are, and what has happened to them
// since the process began.
type Total struct {
	Queued, Running int64
	Tally
}

// Totals returns the Total of each type of the projection.
func (f *Figures) Totals(types []events.TypeInfo) map[events.Type]Total {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[events.Type]Total, len(types))
	for i := range types {
		counts := &types[i].Counts
		total := Total{Queued: counts[events.StateQueued], Running: counts[events.StateClaimed] + counts[events.StateRunning]}
		if t := f.types[types[i].Type]; t != nil {
			total.Tally = t.total
		}
		out[types[i].Type] = total
	}
	return out
}

// Minute returns what has happened to a type's items in the Span.
func (f *Figures) Minute(t events.Type, now time.Time) Tally {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.types[t]; t != nil {
		return t.minute(now.Unix())
	}
	return Tally{}
}

// Died returns how many items of a type have died in the last DeathsWithin.
func (f *Figures) Died(t events.Type, now time.Time) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.types[t]; t != nil {
		return t.deaths.since(now, DeathsWithin)
	}
	return 0
}

// Span returns the time that the last minute covers so far: its seconds, with the
// present one not over yet, or the time since Begin if that is less; at least a
// second.
func (f *Figures) Span(now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	span := Window - time.Second + time.Duration(now.Nanosecond())
	if up := now.Sub(f.began); !f.began.IsZero() {
		span = min(span, up)
	}
	return max(span, time.Second)
}

// MeanRun returns how long a run takes, completed or failed: the mean of the last
// minute, or of the last 32 or so runs if it had none; zero if nothing is known.
func (f *Figures) MeanRun(t events.Type, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.types[t]
	if of == nil {
		return 0
	}
	sum := of.minute(now.Unix())
	if n := sum.Completed + sum.Failed; n > 0 {
		return sum.AllRunTime / time.Duration(n)
	}
	return of.run
}
