package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// The least size of a terminal in which the screen is of use.
const (
	leastWidth  = 60
	leastHeight = 10
)

// View implements tea.Model.
func (m *Model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen = true
	return v
}

// screen returns the lines of the screen.
func (m *Model) screen() []string {
	if m.width < leastWidth || m.height < leastHeight {
		text := fmt.Sprintf("%s top needs %d columns and %d lines: this terminal has %d and %d", m.o.Program, leastWidth, leastHeight, m.width, m.height)
		return wrap(text, m.width, max(m.height, 1))
	}
	lines := m.above()
	below := m.below()
	rows := m.height - len(lines) - len(below)
	if m.help {
		lines = append(lines, helpLines(rows)...)
	} else {
		lines = append(lines, m.body(rows)...)
	}
	for len(lines) < m.height-len(below) {
		lines = append(lines, nil)
	}
	lines = append(lines, below...)
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l.render(m.width)
	}
	return out
}

// rows returns the number of lines that the page has.
func (m *Model) rows() int { return m.height - len(m.above()) - len(m.below()) }

func helpLines(rows int) (lines []line) {
	for _, text := range helpText[:min(len(helpText), rows)] {
		lines = append(lines, line{plain(text)})
	}
	return lines
}

// above returns the lines above the page: what every page shows.
func (m *Model) above() []line {
	lines := append([]line{m.title()}, m.figures()...)
	return append(append(lines, m.trouble()...), m.where())
}

// title says whose screen it is, and when the engine has answered last.
func (m *Model) title() line {
	left := line{plain(m.o.Program + " top")}
	for i, name := range tabs {
		text := "  " + name
		if m.pages[0].kind == kind(i) {
			left = append(left, plain("  "), span{"[" + name + "]", m.o.Style.Strong})
			continue
		}
		left = append(left, span{text, m.o.Style.Faint})
	}
	right := line{plain(m.o.Namespace + "  " + m.owner()), m.clock()}
	if space := m.width - left.width() - right.width(); space > 0 {
		left = append(left, plain(strings.Repeat(" ", space)))
	} else {
		left = append(left, plain("  "))
	}
	return append(left, right...)
}

// owner says which node decides, of how many.
func (m *Model) owner() string {
	info, nodes := m.over.Info, m.over.Nodes
	switch {
	case nodes != nil:
		return fmt.Sprintf("%s of %d nodes  ", cmp.Or(nodes.Owner, "no owner"), len(nodes.Nodes))
	case info.Owner != "":
		return info.Owner + "  "
	}
	return ""
}

// clock shows when the figures are of.
func (m *Model) clock() span {
	switch {
	case m.heard.IsZero():
		return span{"--:--:--", m.o.Style.Faint}
	case m.stale():
		return span{m.heard.Local().Format(time.TimeOnly) + "!", m.warn}
	}
	return plain(m.heard.Local().Format(time.TimeOnly))
}

// patience is for how long an answer may be out before the screen says so.
const patience = 2 * time.Second

// stale reports whether the figures are older than they should be.
func (m *Model) stale() bool {
	return m.err != nil || m.now.Sub(m.heard) > 2*m.o.Interval+patience
}

func (m *Model) warn(text string) string  { return m.o.Style.Alarm(false, text) }
func (m *Model) alarm(text string) string { return m.o.Style.Alarm(true, text) }

// figures returns the totals of all types.
func (m *Model) figures() []line {
	st := m.over.Stats
	n := func(states ...events.ItemState) string { return console.Count(console.InStates(st.States, states...)) }
	dead := plain("  dead " + n(events.StateDead))
	if st.States[events.StateDead.String()] > 0 {
		dead.paint = m.alarm
	}
	first := line{
		plainf("queued %s  waiting %s  running %d of %d", n(events.StateQueued, events.StateCreated, events.StateFailed), n(events.StateWaiting), st.InFlight, st.Capacity),
		dead, plain("  completed " + n(events.StateCompleted)),
	}
	second := line{plainf("per second: in %s  done %s  failed %s  dead %s", rate(st.PerSecond.Submitted), rate(st.PerSecond.Completed), rate(st.PerSecond.Failed), rate(st.PerSecond.Dead))}
	var workers []string
	for _, s := range []wire.WorkerStatus{wire.WorkerActive, wire.WorkerDraining, wire.WorkerUnhealthy, wire.WorkerDead} {
		if k := st.WorkersByStatus[s]; k > 0 || s == wire.WorkerActive {
			workers = append(workers, fmt.Sprintf("%d %s", k, s))
		}
	}
	return []line{first, append(second, plain("  workers "+strings.Join(workers, ", ")))}
}

// trouble returns the alarms, and what needs attention, as far as there is room.
func (m *Model) trouble() []line {
	var lines []line
	for _, al := range m.over.Stats.Alarms {
		paint := m.warn
		if al.Severity == wire.AlarmCritical {
			paint = m.alarm
		}
		lines = append(lines, line{span{strings.ToUpper(string(al.Severity)) + " " + al.Code, paint}, plain(": " + al.Message + ": " + m.o.Calls(al.Action))})
	}
	for _, at := range m.over.Stats.Attention {
		what, whose, _ := console.AttentionText(at)
		paint := m.warn
		if at.Severity == wire.AlarmCritical {
			paint = m.alarm
		}
		lines = append(lines, line{span{what, paint}, plain(": " + whose)})
	}
	most := max((m.height-8)/3, 1)
	if m.page().kind != typesPage {
		most = 1
	}
	if more := len(lines) - most; more > 0 {
		lines = lines[:most]
		lines[most-1] = append(line{{fmt.Sprintf("(%d more) ", more), m.warn}}, lines[most-1]...)
	}
	return lines
}

// where says what the page shows, and of its chosen row what the table may have no room for.
func (m *Model) where() line {
	p := m.page()
	switch p.kind {
	case itemsPage:
		return line{{itemsText(p), m.o.Style.Strong}}
	case itemPage:
		return line{{"item " + p.id, m.o.Style.Strong}}
	}
	text := tabs[p.kind]
	if p.words != "" {
		text += fmt.Sprintf(" with %q", p.words)
	}
	return line{{text, m.o.Style.Strong}, {m.chosenNote(), m.warn}}
}

// chosenNote says what the note of the chosen row says, in full.
func (m *Model) chosenNote() string {
	p := m.page()
	if p.kind == typesPage {
		if t, ok := chosen(p, m.types()); ok && m.typeNote(t) != "" {
			return "  " + t.Type + ": " + m.typeNote(t)
		}
		return ""
	}
	if w, ok := chosen(p, m.workers()); ok && m.workerNote(w) != "" {
		return "  " + w.Worker + ": " + m.workerNote(w)
	}
	return ""
}

// itemsText says which items a page shows.
func itemsText(p *page) string {
	text, f := "items", p.filter
	if f.Type != "" {
		text += " of " + f.Type
	}
	if f.Worker != "" {
		text += " that " + f.Worker + " holds"
	}
	if f.State != "" {
		text += ", " + f.State
	}
	if f.Q != "" {
		text += fmt.Sprintf(", with %q", f.Q)
	}
	if p.items.More {
		text += fmt.Sprintf(" (the last %d)", len(p.items.Items))
	}
	if p.items.Stale != "" {
		text += " - stale, " + p.items.Stale
	}
	return text
}

// mostStatus bounds the lines of the status.
const mostStatus = 3

// below returns the status: one line, or a few for an error.
func (m *Model) below() []line {
	status := m.status()
	var lines []line
	for _, text := range wrap(status.text, m.width, mostStatus) {
		lines = append(lines, line{{text, status.paint}})
	}
	return lines
}

// status returns what matters most now.
func (m *Model) status() span {
	switch out := m.now.Sub(m.asked); {
	case m.ask != nil:
		return span{m.ask.text + "? y/n", m.warn}
	case m.edit != nil:
		return plain("filter: " + m.edit.text + "_")
	case m.changing != "":
		return plain(m.changing + " ...")
	case m.said != "" && m.bad:
		return span{m.o.Calls(m.said), m.alarm}
	case m.err != nil:
		return span{m.o.Calls(console.Explain(m.err)), m.alarm}
	case m.said != "":
		return plain(m.said)
	case m.stop != nil && out > patience:
		return span{fmt.Sprintf("no answer for %s", console.Span(out.Truncate(time.Second))), m.warn}
	}
	return span{hints[m.page().kind], m.o.Style.Faint}
}

// hints say what the keys do, for each kind of page.
var hints = []string{
	typesPage:   "enter items  p pause  / filter  tab workers  ? help  q quit",
	workersPage: "enter its items  / filter  tab items  ? help  q quit",
	itemsPage:   "enter timeline  c cancel  r replay  p pause type  s state  / filter  ? help",
	itemPage:    "esc back  j k scroll  c cancel  r replay  p pause type  ? help  q quit",
}

// body returns the lines of the page.
func (m *Model) body(rows int) []line {
	p := m.page()
	if p.kind == itemPage {
		lines := m.itemLines()
		from := max(min(p.at, len(lines)-rows), 0)
		return lines[from:min(from+rows, len(lines))]
	}
	t, none := m.table()
	switch {
	case m.heard.IsZero() || !p.known:
		return []line{{plain("waiting for the engine")}}
	case len(t.rows) == 0:
		return []line{{plain(m.o.Calls(none))}}
	}
	return m.list(t, rows)
}

// table returns the page's table, and what to say where it is empty.
func (m *Model) table() (t table, none string) {
	switch p := m.page(); {
	case p.kind == typesPage && p.words != "", p.kind == workersPage && p.words != "":
		none = "nothing matches: esc drops the filter"
	case p.kind == typesPage:
		none = "no types yet: the first submission of a type makes it"
	case p.kind == workersPage:
		none = "no workers: start one with `engine work TYPE -- COMMAND`"
	default:
		none = "no items"
	}
	switch m.page().kind {
	case typesPage:
		return m.typesTable(), none
	case workersPage:
		return m.workersTable(), none
	}
	return m.itemsTable(), none
}

// marker stands before the chosen row.
const marker = "> "

// list returns the lines of a table of which a row is chosen: it is among them.
func (m *Model) list(t table, rows int) []line {
	p, l := m.page(), t.layout(m.width-len(marker))
	lines := []line{append(line{plain("  ")}, l.line(t.columns, t.heads(m.o.Style.Faint))...)}
	for i := first(p.at, len(t.rows), rows-1); i < len(t.rows) && len(lines) < rows; i++ {
		mark := plain("  ")
		if i == p.at {
			mark = span{marker, m.o.Style.Strong}
		}
		lines = append(lines, append(line{mark}, l.line(t.columns, t.rows[i])...))
	}
	return lines
}

// first returns the first of n rows that is shown where so many are, with the chosen one in
// the middle as far as that can be.
func first(at, n, shown int) int { return max(min(at-shown/2, n-shown), 0) }
