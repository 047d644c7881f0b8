package live

import (
	"maps"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/streamwright/streamwright/api/figures"
	"github.com/streamwright/streamwright/events"
)

// The trends: an hour of samples.
const (
	SampleEvery = 10 * time.Second
	MaxSamples  = 360 // of a type: an hour
)

// unknown stands for the age of the oldest where the engine did not say.
const unknown = -1

// series holds an hour of a type, in step with ring.at.
type series struct {
	queued, running, submitted, completed, failed, dead [MaxSamples]uint32
	oldest                                              [MaxSamples]int64 // ms
}

// ring holds the last hour of all types.
type ring struct {
	mu    sync.Mutex
	n     int               // samples taken so far
	at    [MaxSamples]int64 // ms since 1970
	types map[events.Type]*series
	last  map[events.Type]figures.Total
}

// begin sets the totals from which on things are counted.
func (r *ring) begin(now map[events.Type]figures.Total) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = now
}

// sample adds the totals of a moment, and drops types that are gone. oldest is the
// age of each type's oldest queued item in ms; nil if it is not known.
func (r *ring) sample(at time.Time, now map[events.Type]figures.Total, oldest map[events.Type]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.types, func(name events.Type, _ *series) bool { _, there := now[name]; return !there })
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
		s.queued[i], s.running[i] = clip(n.Queued), clip(n.Running)
		s.submitted[i], s.completed[i] = clip(n.Submitted-was.Submitted), clip(n.Completed-was.Completed)
		s.failed[i], s.dead[i] = clip(n.Failed-was.Failed), clip(n.Dead-was.Dead)
		s.oldest[i] = oldest[name]
		if oldest == nil && n.Queued > 0 {
			s.oldest[i] = unknown
		}
	}
	r.last = now
	r.n++
}

func clip(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// render returns the body of a reply: the last so many samples of the types wanted.
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

// appendRow appends the last samples values of a ring into which n were written, oldest
// first.
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
