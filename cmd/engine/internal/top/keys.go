package top

import (
	"context"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
)

// helpText explains the screen.
var helpText = []string{
	"up down  j k    choose a row, or scroll; pgup pgdn, home end, g G go further",
	"enter           open: the items of a type or worker, an item's timeline",
	"esc             go back; first drop the filter",
	"tab             types, workers, items",
	"/               filter: types and workers by name, items by text, as",
	"                engine list --q does",
	"s S             items: only those in the next state, or the previous one",
	"p               pause the type, or resume it",
	"c               cancel the item",
	"r               replay the item: queue it again, dead or cancelled",
	"?               this help; any key ends it",
	"q               quit",
	"",
	"What changes something asks first. Rates are per second, over the last",
	"minute. OLDEST: how long the oldest queued item has waited.",
}

// press takes a key.
func (m *Model) press(msg tea.KeyPressMsg) tea.Cmd {
	key := msg.String()
	switch {
	case key == "ctrl+c":
		return tea.Quit
	case m.ask != nil:
		return m.confirm(key)
	case m.edit != nil:
		return m.editFilter(msg)
	case m.help:
		m.help = false
		return nil
	case m.move(key):
		return m.more()
	}
	m.said = ""
	switch key {
	case "q":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	case "?":
		m.help = true
	case "/":
		m.startFilter()
	case "enter", "right", "l":
		return m.open()
	case "esc", "left", "h", "backspace":
		return m.back()
	case "tab":
		return m.tab(1)
	case "shift+tab":
		return m.tab(-1)
	case "s":
		return m.nextState(1)
	case "S":
		return m.nextState(-1)
	case "p":
		m.askPause()
	case "c":
		m.askCancel()
	case "r":
		m.askReplay()
	}
	return nil
}

// move chooses another row, or scrolls, if the key does that.
func (m *Model) move(key string) bool {
	p, rows := m.page(), max(m.rows(), 1)
	at, last := p.at, 0
	if p.kind == itemPage {
		last = max(len(m.itemLines())-rows, 0)
	} else {
		last = len(m.keys()) - 1
	}
	switch key {
	case "up", "k":
		at--
	case "down", "j":
		at++
	case "pgup", "ctrl+b":
		at -= rows
	case "pgdown", "ctrl+f", "space":
		at += rows
	case "home", "g":
		at = 0
	case "end", "G":
		at = last
	default:
		return false
	}
	if p.kind == itemPage {
		p.at = max(min(at, last), 0)
	} else {
		p.choose(m.keys(), at)
	}
	return true
}

// more asks for further items once the last of those that are known is chosen.
func (m *Model) more() tea.Cmd {
	p := m.page()
	if p.kind != itemsPage || !p.items.More || p.at < len(p.items.Items)-1 || p.filter.Limit >= mostItems {
		return nil
	}
	p.filter.Limit = min(p.filter.Limit+someItems, mostItems)
	return m.turned()
}

// open opens what is chosen.
func (m *Model) open() tea.Cmd {
	next := &page{kind: itemsPage, filter: streamwright.Filter{Limit: someItems}}
	switch p := m.page(); p.kind {
	case typesPage:
		t, ok := chosen(p, m.types())
		if !ok {
			return nil
		}
		next.filter.Type = t.Type
	case workersPage:
		w, ok := chosen(p, m.workers())
		if !ok {
			return nil
		}
		next.filter.Worker = w.Worker
	case itemsPage:
		it, ok := chosen(p, p.items.Items)
		if !ok {
			return nil
		}
		next = &page{kind: itemPage, id: it.ID}
	case itemPage:
		return nil
	}
	m.pages = append(m.pages, next)
	return m.turned()
}

// back drops the page's filter, or else leads to the page before.
func (m *Model) back() tea.Cmd {
	switch p := m.page(); {
	case p.words != "":
		p.words = ""
		p.choose(m.keys(), 0)
		return nil
	case p.filter.Q != "" || p.filter.State != "":
		p.filter.Q, p.filter.State = "", ""
		return m.refilled()
	case len(m.pages) > 1:
		m.pages = m.pages[:len(m.pages)-1]
		return m.turned()
	}
	return nil
}

// tab goes to another page of the first ones.
func (m *Model) tab(by int) tea.Cmd {
	next := kind((int(m.pages[0].kind) + by + len(tabs)) % len(tabs))
	if len(m.pages) > 1 && by > 0 && m.pages[0].kind != itemsPage {
		next = m.pages[0].kind + 1
	}
	m.pages = []*page{{kind: next, filter: streamwright.Filter{Limit: someItems}}}
	return m.turned()
}

// stateFilters are the states that s goes round.
var stateFilters = []string{"", "queued", "waiting", "claimed", "running", "failed", "completed", "dead", "cancelled", "merged"}

// nextState filters the items by another state.
func (m *Model) nextState(by int) tea.Cmd {
	p := m.page()
	if p.kind != itemsPage {
		return nil
	}
	for i, s := range stateFilters {
		if s == p.filter.State {
			p.filter.State = stateFilters[(i+by+len(stateFilters))%len(stateFilters)]
			break
		}
	}
	return m.refilled()
}

// refilled is turned where the page's filter is another.
func (m *Model) refilled() tea.Cmd {
	p := m.page()
	p.items, p.known, p.filter.Limit = Items{}, false, someItems
	p.choose(nil, 0)
	return m.turned()
}

// filterEdit is a filter that is being typed.
type filterEdit struct{ text string }

// maxFilter bounds its characters.
const maxFilter = 200

func (e *filterEdit) add(text string) {
	for _, r := range text {
		if s := string(r); len(e.text)+len(s) <= maxFilter && console.Clean(s) == s {
			e.text += s
		}
	}
}

func (m *Model) startFilter() {
	switch p := m.page(); p.kind {
	case itemPage:
	case itemsPage:
		m.edit = &filterEdit{p.filter.Q}
	default:
		m.edit = &filterEdit{p.words}
	}
}

// editFilter takes a key of the filter.
func (m *Model) editFilter(msg tea.KeyPressMsg) tea.Cmd {
	switch msg.String() {
	case "enter":
		text, p := strings.TrimSpace(m.edit.text), m.page()
		m.edit = nil
		if p.kind != itemsPage {
			p.words = text
			p.choose(m.keys(), 0)
			return nil
		}
		p.filter.Q = text
		return m.refilled()
	case "esc":
		m.edit = nil
	case "backspace":
		if r := []rune(m.edit.text); len(r) > 0 {
			m.edit.text = string(r[:len(r)-1])
		}
	case "ctrl+u":
		m.edit.text = ""
	default:
		m.edit.add(msg.Text)
	}
	return nil
}

// confirm takes the answer to a question.
func (m *Model) confirm(key string) tea.Cmd {
	ask := m.ask
	switch key {
	case "y", "Y":
		m.ask = nil
		return m.change(ask)
	case "n", "N", "esc", "q":
		m.ask, m.said, m.bad = nil, "nothing was changed", false
	}
	return nil
}

// confirmFirst asks before a change is made.
func (m *Model) confirmFirst(c confirmation) {
	if m.changing != "" {
		m.said, m.bad = "wait: "+m.changing, true
		return
	}
	m.ask = &c
}

func (m *Model) refuse(format string, args ...any) {
	m.said, m.bad = fmt.Sprintf(format, args...), true
}

func (m *Model) askPause() {
	typ, ok := m.chosenType()
	t := m.typeStats(typ)
	switch {
	case !ok:
		m.refuse("choose a type first")
	case t != nil && t.Paused != nil:
		m.confirmFirst(confirmation{
			fmt.Sprintf("resume %s, %s: %s queued may run", typ, console.HeldBack(t.Paused, nil, m.now), console.Count(t.States[events.StateQueued.String()])),
			"resuming " + typ, func(ctx context.Context) (string, error) { return m.src.Resume(ctx, typ) },
		})
	default:
		text := "pause " + typ
		if t != nil {
			text += fmt.Sprintf(": %s queued wait, %d that run go on", console.Count(t.States[events.StateQueued.String()]), t.InFlight)
		}
		m.confirmFirst(confirmation{text, "pausing " + typ, func(ctx context.Context) (string, error) { return m.src.Pause(ctx, typ) }})
	}
}

// itemText names an item, and says how it is.
func itemText(it streamwright.WorkItem) string {
	text := fmt.Sprintf("%s, %s, %s", it.ID, it.Type, it.State)
	if it.Worker != "" && !it.State.Terminal() {
		text += " by " + it.Worker
	}
	return text
}

func (m *Model) askCancel() {
	it, ok := m.chosenItem()
	switch {
	case !ok:
		m.refuse("choose an item first: enter opens those of a type")
	case it.State.Terminal():
		m.refuse("%s is %s: it has ended, so it can't be cancelled", it.ID, it.State)
	default:
		m.confirmFirst(confirmation{"cancel " + itemText(it), "cancelling " + it.ID,
			func(ctx context.Context) (string, error) { return m.src.Cancel(ctx, it.ID) }})
	}
}

func (m *Model) askReplay() {
	it, ok := m.chosenItem()
	switch {
	case !ok:
		m.refuse("choose an item first: enter opens those of a type")
	case it.State != events.StateDead && it.State != events.StateCancelled:
		m.refuse("%s is %s: replay is for dead or cancelled items", it.ID, it.State)
	default:
		m.confirmFirst(confirmation{"replay " + itemText(it), "replaying " + it.ID,
			func(ctx context.Context) (string, error) { return m.src.Replay(ctx, it.ID) }})
	}
}
