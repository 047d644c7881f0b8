package api

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamwright/streamwright/events"
)

// deadReasons are those of events.Dead.
var deadReasons = []string{"exhausted", "not_retryable", "poisoned", "child_dead", "upstream_dead"}

// begin has a type's deaths counted from 0 on: Prometheus can't tell that a
// counter has grown whose first sample is of after that, as when many items die at
// once. It may be called by any goroutine, and again.
func (o *observer) begin(t events.Type) {
	for _, reason := range deadReasons {
		o.dead.WithLabelValues(string(t), reason)
	}
}

func (o *observer) of(t events.Type) *typeObserver {
	if to := o.types[t]; to != nil {
		return to
	}
	to := &typeObserver{}
	o.types[t] = to
	return to
}

func (t *typeObserver) move(o *observer, typ events.Type, from, to events.ItemState) prometheus.Counter {
	c := &t.transitions[from][to]
	if *c == nil {
		*c = o.transitions.WithLabelValues(string(typ), stateName(from), stateName(to))
	}
	return *c
}

func stateName(s events.ItemState) string {
	if s == events.StateNone {
		return stateNew
	}
	return s.String()
}

func (t *typeObserver) waited(o *observer, typ events.Type, p events.Priority) prometheus.Observer {
	h := &t.queued[p]
	if *h == nil {
		*h = o.queued.WithLabelValues(string(typ), strconv.Itoa(int(p)))
	}
	return *h
}

func (t *typeObserver) claim(o *observer, typ events.Type) prometheus.Observer {
	if t.claimed == nil {
		t.claimed = o.claimed.WithLabelValues(string(typ))
	}
	return t.claimed
}

func (t *typeObserver) ran(o *observer, ev *events.Event) prometheus.Observer {
	h := &t.running[ev.Kind]
	if *h == nil {
		*h = o.running.WithLabelValues(string(ev.Type), ev.Kind.String())
	}
	return *h
}

func (t *typeObserver) ended(o *observer, typ events.Type, as events.ItemState) prometheus.Observer {
	h := &t.whole[as]
	if *h == nil {
		*h = o.whole.WithLabelValues(string(typ), as.String())
	}
	return *h
}

func (t *typeObserver) attempt(o *observer, ev *events.Event) prometheus.Counter {
	n := min(int(max(ev.Attempt, 1)), attemptsTold+1)
	c := &t.attempts[n]
	if *c == nil {
		label := strconv.Itoa(n)
		if n > attemptsTold {
			label = moreTries
		}
		*c = o.attempts.WithLabelValues(string(ev.Type), label)
	}
	return *c
}
