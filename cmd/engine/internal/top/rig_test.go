package top

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// now is the time of all tests.
var now = time.Date(2026, 3, 4, 12, 4, 5, 0, time.Local)

const (
	deadID    = "01JD3V6YB2M4C9W8ZK5T7QXRNE"
	runningID = "01JD3V6YB2M4C9W8ZK5T7QXRNF"
)

// engine is an engine that answers as the test says.
type engine struct {
	over    Overview
	workers []streamwright.WorkerInfo
	items   []streamwright.WorkItem
	err     error // of every question
	refuses error // of every change

	asked []string // the questions, but for overviews, and the changes
	list  streamwright.Filter
}

func (e *engine) tell(what string) { e.asked = append(e.asked, what) }

func (e *engine) Overview(context.Context) (Overview, error) { return e.over, e.err }

func (e *engine) Workers(context.Context) ([]streamwright.WorkerInfo, error) {
	e.tell("workers")
	return e.workers, e.err
}

func (e *engine) Items(_ context.Context, f streamwright.Filter) (Items, error) {
	e.tell("items")
	e.list = f
	n := min(f.Limit, len(e.items))
	return Items{Items: e.items[:n], More: n < len(e.items)}, e.err
}

func (e *engine) Item(_ context.Context, id string) (Item, error) {
	e.tell("item " + id)
	for _, it := range e.items {
		if it.ID == id {
			data := []byte(`{"priority":5,"message":"\u001b[31mred"}`)
			evs := []streamwright.Event{
				{Seq: 7, Kind: events.KindCreated, ID: id, At: now.Add(-time.Minute), Data: data, By: "ada"},
				{Seq: 9, Kind: events.KindClaimed, ID: id, At: now.Add(-time.Second), Attempt: 1, Worker: "mailer-1"},
			}
			totals := wire.Measure(evs)
			return Item{WorkItem: it, Events: evs, Totals: totals, Why: []streamwright.Reason{{Code: "behind", Message: "3 items are in front of it"}}}, e.err
		}
	}
	return Item{}, errors.Join(e.err, events.Refuse(events.CodeNotFound, "there is no item %s", id))
}

func (e *engine) change(what string) (string, error) {
	e.tell(what)
	return what + " is done", e.refuses
}

func (e *engine) Pause(_ context.Context, typ string) (string, error) {
	return e.change("pause " + typ)
}
func (e *engine) Resume(_ context.Context, typ string) (string, error) {
	return e.change("resume " + typ)
}
func (e *engine) Cancel(_ context.Context, id string) (string, error) {
	return e.change("cancel " + id)
}
func (e *engine) Replay(_ context.Context, id string) (string, error) {
	return e.change("replay " + id)
}

func states(n int64, of ...events.ItemState) map[string]int64 {
	m := map[string]int64{}
	for _, s := range of {
		m[s.String()] = n
	}
	return m
}

// foreign is text that terminals draw with all kinds of widths, and that would move the
// cursor.
const foreign = "日本語 😀👍🏽🇩🇪❤️👨‍👩‍👧 e\u0301\u0301 \x1b[31m\x07\r\n\u202e\u200b עברית"

func busy() *engine {
	failed := wire.PerSecond{Submitted: 1.25, Completed: 0.05, Failed: 1234}
	return &engine{
		over: Overview{
			Info: streamwright.Info{Owner: "node-a"},
			Stats: streamwright.Stats{
				States: states(1_234_567, events.StateQueued, events.StateCompleted, events.StateDead), InFlight: 3, Capacity: 20, PerSecond: failed,
				WorkersByStatus: map[wire.WorkerStatus]int{wire.WorkerActive: 2, wire.WorkerDead: 1},
				Types: []wire.TypeStats{
					{Type: "email", States: states(12, events.StateQueued, events.StateDead), InFlight: 3, Capacity: 1000, Workers: 2, Oldest: events.DurationOf(35 * time.Second), PerSecond: failed,
						Paused: &events.Pause{At: now.Add(-time.Minute), By: "ada", Reason: foreign}},
					{Type: "report", States: states(1_234_567, events.StateQueued, events.StateRunning, events.StateWaiting), InFlight: 10, Capacity: 10, PerSecond: failed},
					{Type: "thumbnails-for-the-gallery-of-everything", States: states(1, events.StateCompleted), Capacity: 4, Workers: 1},
				},
				Alarms:    []wire.Alarm{{Code: "disk_low", Severity: wire.AlarmCritical, Message: "the disk is full " + foreign, Action: "see `engine status`"}},
				Attention: []wire.Attention{{Kind: wire.AttentionPaused, Severity: wire.AlarmWarning, Count: 1, Items: 12, First: []wire.AttentionOf{{Type: "email", Items: 12}}}},
			},
		},
		workers: []streamwright.WorkerInfo{
			{Worker: "mailer-1", Session: "a", Types: []string{"email"}, InFlight: 3, Slots: 4, Status: wire.WorkerActive, Host: "host-" + foreign, LastSeen: now.Add(-3 * time.Second)},
			{Worker: "reporter-1", Session: "b", Types: []string{"report", "thumbnails"}, Slots: 4, Status: wire.WorkerUnhealthy, Reason: foreign, LastSeen: now},
		},
		items: []streamwright.WorkItem{
			{ID: deadID, Type: "email", State: events.StateDead, Priority: 5, Attempt: 3, MaxAttempts: 3, CreatedAt: now.Add(-time.Hour), Error: &wire.ItemError{Code: "smtp", Message: foreign + "\nat line 7\n" + strings.Repeat("x", 500)}},
			{ID: runningID, Type: "email", State: events.StateRunning, Worker: "mailer-1", Attempt: 1, MaxAttempts: 3, CreatedAt: now.Add(-time.Second), Params: []byte(`{"to":"` + strings.Repeat(foreign, 200) + `"}`),
				ItemFlow: wire.ItemFlow{Progress: &streamwright.Progress{Percent: 42, Message: foreign, At: now}}},
		},
	}
}

// rig is a screen without a terminal.
type rig struct {
	*Model
	t *testing.T
	e *engine
}

// show returns the screen of an engine, which has answered once.
func show(t *testing.T, e *engine) *rig {
	t.Helper()
	r := &rig{New(t.Context(), e, Options{
		Program: "engine", Namespace: "default", Interval: time.Second, Timeout: time.Minute,
		Calls: func(s string) string { return s }, Now: func() time.Time { return now },
	}), t, e}
	r.run(r.look())
	return r
}

// run does what Update asks for, until there is nothing more to do.
func (r *rig) run(cmd tea.Cmd) {
	for cmd != nil {
		_, cmd = r.Update(cmd())
	}
}

// press presses keys, and awaits what comes of each.
func (r *rig) press(keys ...string) *rig {
	r.t.Helper()
	for _, key := range keys {
		r.run(r.hit(key))
	}
	return r
}

// hit presses a key, and returns what is then to be done.
func (r *rig) hit(key string) tea.Cmd {
	r.t.Helper()
	named := map[string]tea.Key{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "shift+tab": {Code: tea.KeyTab, Mod: tea.ModShift}, "backspace": {Code: tea.KeyBackspace},
		"up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight}, "home": {Code: tea.KeyHome}, "end": {Code: tea.KeyEnd},
		"pgup": {Code: tea.KeyPgUp}, "pgdown": {Code: tea.KeyPgDown}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}, "ctrl+u": {Code: 'u', Mod: tea.ModCtrl}, "ctrl+z": {Code: 'z', Mod: tea.ModCtrl},
	}
	k, ok := named[key]
	if !ok {
		k = tea.Key{Code: []rune(key)[0], Text: key}
	}
	if got := tea.KeyPressMsg(k).String(); got != key {
		r.t.Fatalf("the key %q is %q", key, got)
	}
	_, cmd := r.Update(tea.KeyPressMsg(k))
	return cmd
}

// text is the screen, checked: no line is wider than it, and none moves the cursor.
func (r *rig) text() string {
	r.t.Helper()
	lines := strings.Split(r.View().Content, "\n")
	if len(lines) != r.height {
		r.t.Errorf("%d lines on a screen of %d", len(lines), r.height)
	}
	for _, l := range lines {
		if w := max(ansi.StringWidth(l), ansi.StringWidthWc(l)); w > r.width {
			r.t.Errorf("a line of %d columns on a screen of %d: %q", w, r.width, l)
		}
		if bare := ansi.Strip(l); console.Clean(bare) != bare {
			r.t.Errorf("a line has control characters: %q", l)
		}
	}
	return strings.Join(lines, "\n")
}

// wants checks what the screen says.
func (r *rig) wants(says ...string) *rig {
	r.t.Helper()
	text := r.text()
	for _, s := range says {
		if !strings.Contains(text, s) {
			r.t.Errorf("it does not say %q:\n%s", s, text)
		}
	}
	return r
}

// wantsNot checks what the screen does not say.
func (r *rig) wantsNot(says ...string) *rig {
	r.t.Helper()
	text := r.text()
	for _, s := range says {
		if strings.Contains(text, s) {
			r.t.Errorf("it says %q:\n%s", s, text)
		}
	}
	return r
}

// wantsAsked checks the questions and changes since it was last called.
func (r *rig) wantsAsked(want ...string) *rig {
	r.t.Helper()
	if got := strings.Join(r.e.asked, ", "); got != strings.Join(want, ", ") {
		r.t.Errorf("the engine was asked for %q, want %q", got, want)
	}
	r.e.asked = nil
	return r
}
