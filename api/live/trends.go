package live

import (
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// The trends: an hour of samples.
const (
	SampleEvery = 10 * time.Second
	MaxSamples  = 360 // of a type: an hour
)

// tally is what the projector has told of a type: how many items there are in
// its states now, and how many there have been of some events since the process
// began.
type tally struct {
	queued, running                    int64
	submitted, completed, failed, dead uint64
}

// tallies are those of all types, at most events.MaxTypes.
type tallies struct {
	mu sync.Mutex // held only to count a commit, or to copy
	by map[events.Type]*tally
}

// of returns a type's tally, nil if there are too many. REQUIRES: mu is held.
func (t *tallies) of(name events.Type) *tally {
	n := t.by[name]
	if n == nil && len(t.by) < events.MaxTypes {
		if t.by == nil {
			t.by = map[events.Type]*tally{}
		}
		n = &tally{}
		t.by[name] = n
	}
	return n
}

// count takes in a commit.
func (t *tallies) count(c *core.Changes) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range c.Types {
		if n := t.of(c.Types[i].Type); n != nil {
			counts := &c.Types[i].Counts
			n.queued, n.running = counts[events.StateQueued], counts[events.StateClaimed]+counts[events.StateRunning]
		}
	}
	for _, name := range c.Forgotten {
		delete(t.by, name)
	}
	var last *tally
	var name events.Type
	for i := range c.History {
		ev := &c.History[i]
		switch ev.Kind {
		case events.KindCreated, events.KindCompleted, events.KindFailed, events.KindDead:
		default:
			continue
		}
		if last == nil || ev.Type != name {
			if last, name = t.of(ev.Type), ev.Type; last == nil {
				continue
			}
		}
		last.event(ev.Kind)
	}
}

func (n *tally) event(k events.Kind) {
	switch k {
	case events.KindCreated:
		n.submitted++
	case events.KindCompleted:
		n.completed++
	case events.KindFailed:
		n.failed++
	case events.KindDead:
		n.dead++
	}
}

// seed takes in types of which no commit has told yet.
func (t *tallies) seed(types []wire.TypeStats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range types {
		if name := events.Type(s.Type); t.by[name] == nil {
			if n := t.of(name); n != nil {
				n.queued = s.States[events.StateQueued.String()]
				n.running = s.States[events.StateClaimed.String()] + s.States[events.StateRunning.String()]
			}
		}
	}
}

// read copies the tallies.
func (t *tallies) read() map[events.Type]tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[events.Type]tally, len(t.by))
	for name, n := range t.by {
		out[name] = *n
	}
	return out
}

// unknown is the age of the oldest where the engine did not say.
const unknown = -1

// series is an hour of a type, a ring in step with ring.at.
type series struct {
	queued, running, submitted, completed, failed, dead [MaxSamples]uint32
	oldest                                              [MaxSamples]int64 // ms
}

// ring is the hour of all types.
type ring struct {
	mu    sync.Mutex
	n     int               // samples taken so far
	at    [MaxSamples]int64 // ms since 1970
	types map[events.Type]*series
	last  map[events.Type]tally
}

// begin says from which tallies on things are counted.
func (r *ring) begin(now map[events.Type]tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = now
}

// sample adds the tallies of a moment. oldest is the age of each type's oldest
// queued item in ms; nil if it is not known.
func (r *ring) sample(at time.Time, now map[events.Type]tally, oldest map[events.Type]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.types == nil {
		r.types = map[events.Type]*series{}
	}
	i := r.n % MaxSamples
	r.at[i] = at.UnixMilli()
	for name, n := range now {
		s := r.types[name]
		if s == nil {
			s = &series{}
			r.types[name] = s
		}
		was := r.last[name]
		s.queued[i], s.running[i] = clip(uint64(max(n.queued, 0))), clip(uint64(max(n.running, 0)))
		s.submitted[i], s.completed[i] = clip(n.submitted-was.submitted), clip(n.completed-was.completed)
		s.failed[i], s.dead[i] = clip(n.failed-was.failed), clip(n.dead-was.dead)
		s.oldest[i] = oldest[name]
		if oldest == nil && n.queued > 0 {
			s.oldest[i] = unknown
		}
	}
	r.last = now
	r.n++
}

func clip(n uint64) uint32 { return uint32(min(n, math.MaxUint32)) }

// render is the body of a reply: the last so many samples of the types wanted.
func (r *ring) render(samples int, filter map[events.Type]bool) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	samples = min(samples, r.n, MaxSamples)
	b := append(make([]byte, 0, 4096), `{"step_ms":`...)
	b = strconv.AppendInt(b, SampleEvery.Milliseconds(), 10)
	b = appendRow(append(b, `,"at":`...), r.n, samples, r.at[:])
	b = append(b, `,"types":{`...)
	for i, name := range sortedTypes(r.types, filter) {
		if i > 0 {
			b = append(b, ',')
		}
		b = r.types[name].render(append(strconv.AppendQuote(b, string(name)), ':'), r.n, samples)
	}
	return append(b, "}}\n"...)
}

func (s *series) render(b []byte, n, samples int) []byte {
	b = appendRow(append(b, `{"queued":`...), n, samples, s.queued[:])
	b = appendRow(append(b, `,"running":`...), n, samples, s.running[:])
	b = appendRow(append(b, `,"oldest_ms":`...), n, samples, s.oldest[:])
	b = appendRow(append(b, `,"submitted":`...), n, samples, s.submitted[:])
	b = appendRow(append(b, `,"completed":`...), n, samples, s.completed[:])
	b = appendRow(append(b, `,"failed":`...), n, samples, s.failed[:])
	b = appendRow(append(b, `,"dead":`...), n, samples, s.dead[:])
	return append(b, '}')
}

// appendRow appends the last so many values of a ring of which n were written,
// oldest first.
func appendRow[V uint32 | int64](b []byte, n, samples int, values []V) []byte {
	b = append(b, '[')
	for i := n - samples; i < n; i++ {
		if i > n-samples {
			b = append(b, ',')
		}
		if v := int64(values[i%len(values)]); v == unknown {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendInt(b, v, 10)
		}
	}
	return append(b, ']')
}
