package wire

import (
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
)

// StateDurations is the time that an item has spent in each state, up to its last
// event, in whole milliseconds. The sum is the time from its created event to its last,
// less the time between an end and a replay.
type StateDurations struct {
	Waited    events.Duration `json:"waited_ms,omitzero"`     // queued and due, until it was claimed
	BackedOff events.Duration `json:"backed_off_ms,omitzero"` // queued and not due: a delay, a backoff, a snooze
	Held      events.Duration `json:"held_ms,omitzero"`       // waiting for other items
	Starting  events.Duration `json:"starting_ms,omitzero"`   // claimed, until it started
	Ran       events.Duration `json:"ran_ms,omitzero"`        // running
}

// Measure computes an item's waits and run times from its events, oldest first.
// It sets them in each event that ends a wait or a run, and returns the sums.
func Measure(evs []HistoryEvent) StateDurations {
	var m measure
	for i := range evs {
		m.step(&evs[i])
	}
	return m.sum
}

type measure struct {
	state events.ItemState
	since time.Time      // when the state began, or was last accounted for
	due   time.Time      // queued: not before
	now   StateDurations // in this state
	sum   StateDurations
}

// step takes one event.
func (m *measure) step(ev *HistoryEvent) {
	next, ok := events.Next(m.state, ev.Kind)
	if !ok {
		return // it does not change the item
	}
	m.account(ev.At)
	if next != m.state || ev.Kind == events.KindQueued {
		m.settle(ev)
	}
	switch ev.Kind {
	case events.KindQueued, events.KindRescheduled, events.KindSnoozed:
		m.due = dueOf(ev.Data)
	case events.KindReleased, events.KindReplayed:
		m.due = time.Time{}
	}
	m.state, m.since = next, ev.At
}

// account adds the time since the last event to what the item was meanwhile.
func (m *measure) account(at time.Time) {
	whole := func(d time.Duration) time.Duration { return max(d, 0).Truncate(time.Millisecond) }
	switch m.state {
	case events.StateQueued:
		off := time.Duration(0)
		if m.due.After(m.since) {
			off = min(m.due.Sub(m.since), at.Sub(m.since))
		}
		m.now.BackedOff.Duration += whole(off)
		m.now.Waited.Duration += whole(at.Sub(m.since) - off)
	case events.StateClaimed:
		m.now.Starting.Duration += whole(at.Sub(m.since))
	case events.StateRunning:
		m.now.Ran.Duration += whole(at.Sub(m.since))
	case events.StateWaiting:
		m.now.Held.Duration += whole(at.Sub(m.since))
	}
}

// settle tells what the state that ends here has taken.
func (m *measure) settle(ev *HistoryEvent) {
	if m.now != (StateDurations{}) {
		spans := m.now
		ev.StateDurations = &spans
	}
	m.sum.Waited.Duration += m.now.Waited.Duration
	m.sum.BackedOff.Duration += m.now.BackedOff.Duration
	m.sum.Held.Duration += m.now.Held.Duration
	m.sum.Starting.Duration += m.now.Starting.Duration
	m.sum.Ran.Duration += m.now.Ran.Duration
	m.now = StateDurations{}
}

func dueOf(data json.RawMessage) time.Time {
	var d struct {
		AvailableAt time.Time `json:"available_at"`
	}
	if json.Unmarshal(data, &d) != nil {
		return time.Time{}
	}
	return d.AvailableAt
}
