package top

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
)

// The lines of an item at most: of one field, and of its events.
const (
	mostFieldLines = 8
	mostEvents     = 1000
)

// itemLines returns the lines of the item that is shown.
func (m *Model) itemLines() []line {
	p := m.page()
	if !p.known {
		return []line{{plain("waiting for the engine")}}
	}
	it := p.item
	f := itemFields{m: m}
	head := line{f.name("state"), m.state(it.State)}
	if it.Batch == nil {
		head = append(head, plainf("  attempt %d of %d  priority %d", it.Attempt, it.MaxAttempts, it.Priority))
	}
	f.lines = append(f.lines, line{f.name("type"), plain(it.Type)}, head)
	f.text("reason", it.Reason)
	f.text("into", it.MergedInto)
	f.text("worker", it.Worker)
	f.text("created", m.ago(it.CreatedAt)+by(it.SubmittedBy))
	if it.AvailableAt.After(m.now) {
		f.text("due", m.ago(it.AvailableAt))
	}
	if !it.State.Terminal() {
		f.text("deadline", m.ago(it.Deadline))
	}
	if p := it.Progress; p != nil {
		f.text("progress", console.ProgressText(p, 200, console.Style{})+", "+console.Ago(p.At, m.now))
	}
	if it.Batch != nil {
		f.text("batch", console.BatchText(it.Batch, it.State))
	}
	if w := it.WaitsFor; w != nil {
		f.text("waits", console.WaitText(w))
	}
	f.failure(it)
	for _, r := range it.Why {
		text := r.Code + ": " + r.Message
		if !r.Until.IsZero() {
			text += " (passes " + console.Ago(r.Until, m.now) + ")"
		}
		f.text("why", m.o.Calls(text))
	}
	f.text("dedup key", it.DedupKey)
	f.text("tenant", it.Tenant)
	for _, k := range slices.Sorted(maps.Keys(it.Labels)) {
		f.text("label", k+"="+it.Labels[k])
	}
	f.text("in all", console.Took(&it.Totals))
	f.lines = append(append(f.lines, nil), m.timeline(it)...)
	f.lines = append(f.lines, nil)
	f.text("params", string(it.Params))
	f.text("result", string(it.Result))
	return f.lines
}

// ago shows a time with how long ago it was, or nothing.
func (m *Model) ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime) + ", " + console.Ago(t, m.now)
}

// by names who asked for something, if that is known.
func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}

// itemFields collects the fields of an item.
type itemFields struct {
	m     *Model
	lines []line
}

// nameWidth is the width of a field's name.
const nameWidth = 10

func (f *itemFields) name(name string) span {
	return span{pad(name, nameWidth, false), f.m.o.Style.Faint}
}

// text adds a field, unless it is empty.
func (f *itemFields) text(name, value string) {
	for _, part := range wrap(value, f.m.width-nameWidth, mostFieldLines) {
		f.lines = append(f.lines, line{f.name(name), plain(part)})
		name = ""
	}
}

// failure adds an item's last error: its first line, and a few of what is below it.
func (f *itemFields) failure(it Item) {
	if it.Error == nil {
		return
	}
	name, before := "error", len(f.lines)
	for text := range strings.Lines(console.Failure(it.Error)) {
		if len(f.lines)-before >= mostFieldLines {
			break
		}
		f.text(name, strings.ReplaceAll(strings.TrimRight(text, "\r\n"), "\t", "    "))
		name = ""
	}
	for _, l := range f.lines[before:] {
		l[1].paint = f.m.alarm
	}
}

// timeline returns an item's events.
func (m *Model) timeline(it Item) []line {
	var lines []line
	evs := it.Events
	if n := len(evs) - mostEvents; n > 0 {
		evs = evs[n:]
		lines = append(lines, line{plain(m.o.Calls(fmt.Sprintf("%s events before these: see `engine history %s`", console.Count(n), it.ID)))})
	}
	t := table{columns: []column{
		{head: "AT"}, {head: "AFTER", right: true}, {head: "EVENT"}, {head: "TRY", right: true}, {head: "WHO", least: 10}, {head: "TOOK", least: 8}, {head: "DETAIL", least: 24},
	}}
	var before time.Time
	for _, ev := range evs {
		after, try := "", ""
		if !before.IsZero() {
			after = "+" + console.Span(ev.At.Sub(before))
		}
		before = ev.At
		if ev.Attempt > 0 {
			try = fmt.Sprint(ev.Attempt)
		}
		t.rows = append(t.rows, []span{
			plain(m.moment(ev.At)), plain(after), {ev.Kind.String(), func(text string) string { return m.o.Style.Kind(ev.Kind, text) }}, plain(try),
			plain(who(ev)), plain(console.Took(ev.StateDurations)), plain(console.Summary(ev, m.o.Style)),
		})
	}
	l := t.layout(m.width)
	lines = append(lines, l.line(t.columns, t.heads(m.o.Style.Faint)))
	for _, row := range t.rows {
		lines = append(lines, l.line(t.columns, row))
	}
	return lines
}

// who names the worker of an event, or who asked for it.
func who(ev streamwright.Event) string {
	if ev.By != "" {
		return "by " + ev.By
	}
	return ev.Worker
}

// moment shows when an event was: of today the time, else the date.
func (m *Model) moment(t time.Time) string {
	t = t.Local()
	if t.YearDay() == m.now.Local().YearDay() && t.Year() == m.now.Local().Year() {
		return t.Format("15:04:05.000")
	}
	return t.Format("01-02 15:04:05")
}
