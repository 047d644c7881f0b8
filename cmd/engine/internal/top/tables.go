package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func (m *Model) typesTable() table {
	t := table{columns: []column{
		{head: "TYPE", least: 14}, {head: "QUEUED", right: true}, {head: "WAIT", right: true}, {head: "RUN", right: true},
		{head: "DEAD", right: true}, {head: "IN/S", right: true}, {head: "DONE/S", right: true}, {head: "FAIL/S", right: true},
		{head: "OLDEST", right: true}, {head: "WRK", right: true, drop: 3}, {head: "COMPLETED", right: true, drop: 1}, {head: "CANCELLED", right: true, drop: 1}, {head: "NOTE", least: 9},
	}}
	for _, ty := range m.types() {
		n := func(states ...events.ItemState) string { return short(console.InStates(ty.States, states...)) }
		dead := plain(n(events.StateDead))
		if dead.text != "0" {
			dead.paint = m.alarm
		}
		oldest := "-"
		if ty.Oldest.Duration > 0 {
			oldest = console.Span(ty.Oldest.Duration)
		}
		t.rows = append(t.rows, []span{
			plain(ty.Type), plain(n(events.StateQueued, events.StateCreated, events.StateFailed)), plain(n(events.StateWaiting)),
			plainf("%d/%d", ty.InFlight, ty.Capacity), dead, plain(rate(ty.PerSecond.Submitted)), plain(rate(ty.PerSecond.Completed)), plain(rate(ty.PerSecond.Failed)),
			plain(oldest), plain(short(ty.Workers)), plain(n(events.StateCompleted)), plain(n(events.StateCancelled)), {m.typeNote(ty), m.warn},
		})
	}
	return t
}

// typeNote says what holds a type back, or that it needs workers.
func (m *Model) typeNote(t wire.TypeStats) string {
	switch held := console.HeldBack(t.Paused, t.Circuit, m.now); {
	case held != "-":
		return held
	case t.Workers == 0 && t.States[events.StateQueued.String()] > 0:
		return "no worker"
	case t.Starving > 0:
		return fmt.Sprintf("%s starving", short(t.Starving))
	}
	return ""
}

func (m *Model) workersTable() table {
	t := table{columns: []column{
		{head: "WORKER", least: 14}, {head: "BUSY", right: true}, {head: "STATUS"}, {head: "TYPES", least: 12},
		{head: "CPU", right: true, drop: 2}, {head: "MEMORY", right: true, drop: 2}, {head: "HOST", least: 8, drop: 1}, {head: "VERSION", least: 8, drop: 1}, {head: "SEEN", right: true}, {head: "NOTE", least: 8},
	}}
	for _, w := range m.workers() {
		cpu, memory := console.Usage(w.Health)
		status := plain(string(w.Status))
		switch w.Status {
		case wire.WorkerUnhealthy, wire.WorkerDead:
			status.paint = m.alarm
		case wire.WorkerDraining:
			status.paint = m.warn
		}
		t.rows = append(t.rows, []span{
			plain(w.Worker), plainf("%d/%d", w.InFlight, w.Slots), status, plain(strings.Join(w.Types, ",")),
			plain(cpu), plain(memory), plain(w.Host), plain(w.Version), plain(console.Ago(w.LastSeen, m.now)), {m.workerNote(w), m.warn},
		})
	}
	return t
}

// workerNote says what is wrong with a worker.
func (m *Model) workerNote(w streamwright.WorkerInfo) string {
	if w.Circuit != nil {
		return console.CircuitText(w.Circuit, m.now)
	}
	return w.Reason
}

func (m *Model) itemsTable() table {
	p := m.page()
	t := table{columns: []column{
		{head: "ID"}, {head: "TYPE", least: 8}, {head: "STATE"}, {head: "P", right: true, drop: 1}, {head: "TRY", right: true}, {head: "AGE", right: true}, {head: "NOTE", least: 18},
	}}
	for _, it := range p.items.Items {
		t.rows = append(t.rows, []span{
			plain(it.ID), plain(it.Type), m.state(it.State), plain(strconv.Itoa(it.Priority)), plainf("%d/%d", it.Attempt, it.MaxAttempts),
			plain(console.Span(m.now.Sub(it.CreatedAt).Truncate(time.Second))), plain(console.ItemNote(it, m.now, m.o.Style)),
		})
	}
	if p.filter.Type != "" { // it is in the line above
		t.columns = append(t.columns[:1:1], t.columns[2:]...)
		for i, row := range t.rows {
			t.rows[i] = append(row[:1:1], row[2:]...)
		}
	}
	return t
}

// state shows an item's state.
func (m *Model) state(st events.ItemState) span {
	return span{st.String(), func(text string) string { return m.o.Style.InState(st, text) }}
}
