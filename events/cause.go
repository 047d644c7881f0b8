package events

import "time"

// The bounds of causes.
const (
	// MaxCauseError is how much of its example's error a [Cause] keeps, in bytes.
	MaxCauseError = 512
	// CauseKeep is how long a cause of which nothing is dead any more is kept
	// after its last death.
	CauseKeep = 30 * 24 * time.Hour
	// CauseWindow is the time within which fast growth is noticed: when the
	// deaths of a cause in one window reach CauseGrowth, ten times that, and so
	// on.
	CauseWindow = 5 * time.Minute
	CauseGrowth = 10
)

// Why a cause_noted says that it does.
const (
	CauseNew     = "new"     // the first death of this cause, or the first since it was forgotten
	CauseGrowing = "growing" // CauseGrowth deaths in a window, or a power of ten more
)

// Cause is what items have died of: those whose type, reason, code and error
// text, with its numbers and ids left out, are the same.
type Cause struct {
	Type    Type      `json:"type"`
	Reason  string    `json:"reason"`
	Code    string    `json:"code,omitempty"`
	Error   string    `json:"error,omitempty"` // of the example
	Count   int64     `json:"count"`           // deaths, in all
	Dead    int64     `json:"dead"`            // of these items, how many are dead now
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Example ID        `json:"example"` // the last one
	// The window in which fast growth is noticed.
	WindowAt time.Time `json:"window_at,omitzero"`
	Window   int64     `json:"window,omitempty"`
	Noted    int64     `json:"noted,omitempty"` // the window's count when that was last noted
}

// died is the cause after one more death.
func (c Cause) died(it *Item, b *Dead, at time.Time) Cause {
	if c.Count == 0 {
		c.Type, c.First = it.Type, at
	}
	if c.WindowAt.IsZero() || !at.Before(c.WindowAt.Add(CauseWindow)) {
		c.WindowAt, c.Window, c.Noted = at, 0, 0
	}
	c.Reason, c.Code, c.Error = b.Reason, b.Code, text(b.Error, MaxCauseError)
	c.Count++
	c.Dead++
	c.Window++
	c.Last, c.Example = at, it.ID
	return c
}

// growing reports whether the window's count has just reached a step.
func (c Cause) growing() bool {
	step := int64(CauseGrowth)
	for step < c.Window {
		step *= 10
	}
	return c.Window == step && c.Noted < step
}

// dead is the end of an item that has failed for good, and what that says of
// its cause: one event, or two.
func (d *decider) dead(it *Item, b *Dead) []Event {
	key, c, known := d.causeOf(it, b)
	b.Cause = key
	c = c.died(it, b, d.now)
	evs := []Event{d.runEvent(it, b)}
	why := ""
	switch {
	case !known:
		why = CauseNew
	case c.growing():
		why = CauseGrowing
	}
	if why != "" {
		c.Noted = c.Window
		evs = append(evs, Event{Kind: KindCauseNoted, Type: it.Type, At: d.now, Body: &CauseNoted{
			Cause: key, Why: why, Count: c.Count, Window: c.Window, Reason: c.Reason, Code: c.Code, Error: c.Error, Example: it.ID,
		}})
	}
	if d.causes == nil {
		d.causes = map[string]Cause{}
	}
	d.causes[key] = c
	return evs
}

// causeOf is what a death is counted under: its own cause, or, where there are
// too many of them, the type's other one. known says that items have died of
// it before.
func (d *decider) causeOf(it *Item, b *Dead) (key string, c Cause, known bool) {
	key = CauseOf(it.Type, b.Reason, b.Code, b.Error)
	if c, known = d.cause(key); known {
		return key, c, true
	}
	// Each cause that this decision has touched may take a place, or keep one
	// that was free to be given away.
	touched := len(d.causes)
	if d.s.causes.len()+touched < d.s.maxCauses || d.s.idleCauses > touched {
		return key, c, false
	}
	key = otherCause(it.Type)
	c, known = d.cause(key)
	return key, c, known
}

func (d *decider) cause(key string) (Cause, bool) {
	if c, ok := d.causes[key]; ok {
		return c, true
	}
	if c := d.s.causes.get(key); c != nil {
		return *c, true
	}
	return Cause{}, false
}
