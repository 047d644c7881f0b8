package figures

import (
	"sync"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// Window is what rates and means are taken over.
const Window = time.Minute

const ringSeconds = int64(Window/time.Second) + 1

// Flow counts, for each type, what has happened in the last minute. Its times
// are those of the events. For a type it takes 61 seconds × 56 bytes.
type Flow struct {
	mu    sync.Mutex
	began time.Time // zero: nothing was counted yet
	types map[events.Type]*ring
}

// NewFlow makes an empty Flow.
func NewFlow() *Flow { return &Flow{types: map[events.Type]*ring{}} }

// Tally is what has happened to a type's items.
type Tally struct {
	Submitted int64 // created items
	Arrived   int64 // times that an item was queued: submitted, retried, put back, replayed
	Completed int64 // runs
	Failed    int64 // runs
	Dead      int64 // items
	// RunTime is that of the completed runs, AllRunTime that of the failed ones
	// as well.
	RunTime, AllRunTime time.Duration
}

type second struct {
	at int64 // seconds since 1970
	Tally
}

type ring struct {
	seconds [ringSeconds]second
	// run is a moving mean of the runs, in which the last 32 or so weigh most.
	run time.Duration
}

func (r *ring) at(sec int64) *second {
	s := &r.seconds[uint64(sec)%uint64(ringSeconds)]
	if s.at != sec {
		*s = second{at: sec}
	}
	return s
}

// Feed counts what a batch's events say. Events from before the Flow's window
// are of no consequence.
func (f *Flow) Feed(c *core.Changes) {
	if len(c.History) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	newest := c.Meta.LastAt.Unix()
	for i := range c.History {
		ev := &c.History[i]
		sec := ev.At.Unix()
		if newest-sec >= ringSeconds {
			continue
		}
		r := f.types[ev.Type]
		if r == nil {
			r = &ring{}
			f.types[ev.Type] = r
		}
		r.at(sec).count(ev)
		r.ran(ev)
	}
}

// runWeight is how little a run counts in the moving mean.
const runWeight = 32

func (r *ring) ran(ev *events.Event) {
	ms := int64(0)
	switch b := ev.Body.(type) {
	case *events.Completed:
		ms = b.DurationMS
	case *events.Failed:
		ms = b.DurationMS
	default:
		return
	}
	took := time.Duration(ms) * time.Millisecond
	if r.run == 0 {
		r.run = took
		return
	}
	r.run += (took - r.run) / runWeight
}

func (t *Tally) count(ev *events.Event) {
	switch b := ev.Body.(type) {
	case *events.Created:
		t.Submitted++
	case *events.Queued, *events.Released, *events.Snoozed, *events.Replayed:
		t.Arrived++
	case *events.Completed:
		t.Completed++
		took := time.Duration(b.DurationMS) * time.Millisecond
		t.RunTime += took
		t.AllRunTime += took
	case *events.Failed:
		t.Failed++
		t.AllRunTime += time.Duration(b.DurationMS) * time.Millisecond
	case *events.Dead:
		t.Dead++
	}
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

// Begin says when the engine has begun: what is younger than a minute is
// counted from there. Only the first call counts.
func (f *Flow) Begin(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.began.IsZero() {
		f.began = now
	}
}

// Minute is what has happened to a type's items in the Span.
func (f *Flow) Minute(t events.Type, now time.Time) Tally {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.types[t]; r != nil {
		return r.sum(now.Unix())
	}
	return Tally{}
}

// Span is how long the last minute was: all of its seconds, of which the present
// one is not over, or the time since Begin if that is less; at least a second.
func (f *Flow) Span(now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	span := Window - time.Second + time.Duration(now.Nanosecond())
	if up := now.Sub(f.began); !f.began.IsZero() {
		span = min(span, up)
	}
	return max(span, time.Second)
}

func (r *ring) sum(sec int64) (sum Tally) {
	for i := range r.seconds {
		if s := &r.seconds[i]; s.at <= sec && sec-s.at < int64(Window/time.Second) {
			sum.Add(s.Tally)
		}
	}
	return sum
}

// MeanRun is how long a run takes, completed or failed: the mean of the last
// minute, or of the last 32 or so runs if it had none; zero if nothing is known.
func (f *Flow) MeanRun(t events.Type, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.types[t]
	if r == nil {
		return 0
	}
	sum := r.sum(now.Unix())
	if n := sum.Completed + sum.Failed; n > 0 {
		return sum.AllRunTime / time.Duration(n)
	}
	return r.run
}
