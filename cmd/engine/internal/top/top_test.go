package top

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// The screen of a quiet engine, as it is.
func TestTheFirstPage(t *testing.T) {
	e := &engine{over: Overview{
		Info: streamwright.Info{Owner: "node-a"},
		Stats: streamwright.Stats{
			States: states(3, events.StateQueued), InFlight: 1, Capacity: 8, WorkersByStatus: map[wire.WorkerStatus]int{wire.WorkerActive: 1},
			Types: []wire.TypeStats{
				{Type: "email", States: states(3, events.StateQueued), InFlight: 1, Capacity: 4, Workers: 1, Oldest: events.DurationOf(35 * time.Second), PerSecond: wire.PerSecond{Submitted: 1.5}},
				{Type: "report", States: states(1, events.StateDead), Capacity: 4},
			},
		},
	}}
	r := show(t, e)
	r.Update(tea.WindowSizeMsg{Width: 80, Height: 10})
	want := `
engine top  [types]  workers  items                    default  node-a  12:04:05
queued 3  waiting 0  running 1 of 8  dead 0  completed 0
per second: in 0  done 0  failed 0  dead 0  workers 1 active
types
  TYPE   QUEUED WAIT RUN DEAD IN/S DONE/S FAIL/S OLDEST WRK NOTE
> email       3    0 1/4    0  1.5      0      0    35s   1
  report      0    0 0/4    1    0      0      0      -   0


enter items  p pause  / filter  tab workers  ? help  q quit`
	trimmed := strings.Split(r.text(), "\n")
	for i, l := range trimmed {
		trimmed[i] = strings.TrimRight(l, " ")
	}
	if got := "\n" + strings.Join(trimmed, "\n"); got != want {
		t.Errorf("got:%s\nwant:%s", got, want)
	}
}

// Whatever the engine holds, and whatever the size: no line wraps, and no control
// character gets through. text checks that.
func TestEveryScreenFits(t *testing.T) {
	for _, size := range []struct{ width, height int }{{60, 10}, {61, 11}, {80, 24}, {97, 30}, {250, 60}} {
		t.Run(fmt.Sprintf("%dx%d", size.width, size.height), func(t *testing.T) {
			r := show(t, busy())
			r.Update(tea.WindowSizeMsg{Width: size.width, Height: size.height})
			for _, keys := range []string{"", "p", "n", "?", "?", "/", "a", "esc", "tab", "down", "tab", "enter", "j", "G", "esc", "down", "enter", "G", "pgup", "c", "n"} {
				if keys != "" {
					r.press(keys)
				}
				r.text()
			}
			r.e.err = events.Refuse(events.CodeUnavailable, "no engine answers: %s", strings.Repeat(foreign, 20))
			r.run(r.look())
			r.wants("no engine answers")
		})
	}
}

func TestATerminalThatIsTooSmall(t *testing.T) {
	r := show(t, busy())
	for _, size := range []struct{ width, height int }{{59, 24}, {80, 9}, {1, 1}, {0, 0}} {
		r.Update(tea.WindowSizeMsg{Width: size.width, Height: size.height})
		if n := len(strings.Split(r.View().Content, "\n")); n > max(size.height, 1) {
			t.Errorf("%d lines on a screen of %d", n, size.height)
		}
	}
	r.Update(tea.WindowSizeMsg{Width: 59, Height: 24})
	if s := strings.ReplaceAll(r.View().Content, "\n", ""); s != "engine top needs 60 columns and 10 lines: this terminal has 59 and 24" {
		t.Errorf("it says %q", s)
	}
}

// Colours only where they are wanted; what they say is said without them, too.
func TestColours(t *testing.T) {
	r := show(t, busy())
	for range 3 {
		r.wantsNot("\x1b").press("tab")
	}
	r.o.Style = console.TerminalStyle
	for range 3 {
		r.wants("\x1b[").press("tab")
	}
}

func TestWhatNeedsAttention(t *testing.T) {
	r := show(t, busy()).wants("CRITICAL disk_low: the disk is full", "1 type paused, 12 queued: email 12", "workers 2 active, 1 dead", "> email", "paused 1m ago by ada", "no worker")
	r.press("tab").wants("(1 more) CRITICAL disk_low") // one line where the page is about something else
	r.e.over.Nodes = &streamwright.Nodes{Owner: "node-b", Nodes: make([]streamwright.Node, 3)}
	r.run(r.look())
	r.wants("node-b of 3 nodes")
	r.e.over.Nodes.Owner = ""
	r.run(r.look())
	r.wants("no owner of 3 nodes")
}

func TestMoving(t *testing.T) {
	r := show(t, busy()).wants("> email")
	for _, step := range []struct{ key, chosen string }{
		{"down", "report"}, {"j", "thumbnails"}, {"j", "thumbnails"}, {"k", "report"}, {"up", "email"}, {"up", "email"},
		{"G", "thumbnails"}, {"g", "email"}, {"end", "thumbnails"}, {"home", "email"}, {"pgdown", "thumbnails"}, {"pgup", "email"}, {"j", "report"},
	} {
		r.press(step.key).wants("> " + step.chosen)
	}
	// What is chosen stays chosen, where it goes, and what is gone is followed by its neighbour.
	r.e.over.Stats.Types = append([]wire.TypeStats{{Type: "a-new-one"}}, r.e.over.Stats.Types...)
	r.run(r.look())
	r.wants("> report")
	r.e.over.Stats.Types = r.e.over.Stats.Types[:2]
	r.run(r.look())
	r.wants("> email")
	r.e.over.Stats.Types = nil
	r.run(r.look())
	r.wants("no types yet").press("j", "enter", "p").wants("choose a type first")
}

// A list that is longer than the screen shows the chosen row.
func TestScrolling(t *testing.T) {
	e := busy()
	e.over.Stats.Types = nil
	for i := range 100 {
		e.over.Stats.Types = append(e.over.Stats.Types, wire.TypeStats{Type: fmt.Sprintf("type-%02d", i)})
	}
	r := show(t, e).wants("> type-00").press("G").wants("> type-99").press("pgup", "k").wantsNot("type-99", "type-00")
	r.press("g").wants("> type-00")
	r.press("/", "9", "7", "enter").wants(`types with "97"`, "> type-97").wantsNot("type-98").press("esc").wants("> type-00")
	r.press("/", "n", "o", "p", "e", "enter").wants("nothing matches: esc drops the filter")
}

func TestPages(t *testing.T) {
	r := show(t, busy()).wants("[types]")
	r.press("tab").wants("[workers]", "> mailer-1", "3/4", "unhealthy").wantsAsked("workers")
	r.press("tab").wants("[items]", "> "+deadID, "smtp: ", "42 %").wantsAsked("items")
	r.press("tab").wants("[types]").press("shift+tab").wants("[items]").wantsAsked("items")
	r.press("enter").wants("item "+deadID, "attempt 3 of 3", "smtp: ", `日本語`, "at line 7").wantsAsked("item " + deadID)
	r.press("G").wants("created", "by ada", "claimed", "+59s", `\x1b[31mred`)
	r.press("esc").wants("[items]", "> "+deadID).wantsAsked("items")
	r.press("down", "enter").wants("why       behind: 3 items are in front of it", "progress  42 %").press("left", "left", "left").wants("[items]")
	r.press("tab", "right").wants("items of email").wantsAsked("item "+runningID, "items", "items")
	if r.e.list.Type != "email" || r.e.list.Limit != someItems {
		t.Errorf("the engine was asked for %+v", r.e.list)
	}
	r.press("tab").wants("[workers]").press("j", "enter").wants("items that reporter-1 holds")
	if r.e.list.Worker != "reporter-1" {
		t.Errorf("the engine was asked for %+v", r.e.list)
	}
	r.press("?").wants("replay the item").press("x").wantsNot("replay the item").wants("items that reporter-1 holds")
}

func TestFilteringItems(t *testing.T) {
	r := show(t, busy()).press("enter", "s", "s").wants("items of email, waiting")
	if r.e.list.State != "waiting" {
		t.Errorf("the engine was asked for %+v", r.e.list)
	}
	r.press("S", "S", "S").wants(", merged").press("/", "o", "r", "x", "backspace").wants("filter: or_")
	r.Update(tea.PasteMsg{Content: "der\x1b[31m-1\n"})
	r.press("q").wants("filter: order[31m-1q_").press("ctrl+u", "n", "enter").wants(`, with "n"`)
	if r.e.list.Q != "n" || r.e.list.State != "merged" {
		t.Errorf("the engine was asked for %+v", r.e.list)
	}
	r.press("/", "x", "esc").wants(`, with "n"`)
	r.press("esc").wants("items of email\n").press("esc").wants("[types]")
	r.Update(tea.PasteMsg{Content: "ignored"})
	r.press("/")
	r.Update(tea.PasteMsg{Content: strings.Repeat("é", 1000)})
	if n := len(r.edit.text); n > maxFilter {
		t.Errorf("a filter of %d bytes", n)
	}
}

// Further items are asked for at the end of those that are known, up to a bound.
func TestMoreItems(t *testing.T) {
	e := busy()
	for i := range 1200 {
		e.items = append(e.items, streamwright.WorkItem{ID: fmt.Sprintf("01JD3V6YB2M4C9W8ZK5T%06d", i), Type: "email", State: events.StateQueued})
	}
	r := show(t, e).press("enter").wants("(the last 100)").press("G").wants("(the last 200)")
	for range 20 {
		r.press("G")
	}
	r.wants("(the last 1000)")
}

func TestChanges(t *testing.T) {
	r := show(t, busy())
	r.press("p").wants("resume email, paused 1m ago by ada", "12 queued may run? y/n").wantsAsked()
	r.press("x", "enter").wants("y/n").press("n").wants("nothing was changed").wantsAsked()
	r.press("p", "y").wants("resume email is done").wantsAsked("resume email")
	r.press("j").press("p").wants("pause report: 1,234,567 queued wait, 10 that run go on? y/n").press("y").wants("pause report is done").wantsAsked("pause report")
	r.press("c").wants("choose an item first").press("r").wants("choose an item first")
	r.press("tab", "tab").wantsAsked("workers", "items")
	r.press("c").wants(deadID + " is dead: it has ended, so it can't be cancelled").press("r").wants("replay " + deadID + ", email, dead? y/n").press("esc").wants("nothing was changed").wantsAsked()
	r.press("r", "Y").wants("replay "+deadID+" is done").wantsAsked("replay "+deadID, "items")
	r.press("j", "r").wants("replay is for dead or cancelled items").press("c").wants("cancel " + runningID + ", email, running by mailer-1? y/n").press("q").wants("nothing was changed").wantsAsked()
	r.press("enter", "c", "y").wants("cancel "+runningID+" is done").wantsAsked("item "+runningID, "cancel "+runningID, "item "+runningID)
	r.press("p", "y").wantsAsked("resume email", "item "+runningID)
}

// A refusal is shown as the engine words it, and a change under way excludes another one.
func TestRefusals(t *testing.T) {
	r := show(t, busy())
	r.e.refuses = events.Refuse(events.CodeForbidden, "the user ada may only read")
	r.press("p", "y").wants("the user ada may only read (forbidden)").press("j").wants("the user ada may only read").press("?", "?").wantsNot("may only read")
	r.press("p")
	cmd := r.hit("y")
	r.wants("pausing report ...").press("p").wants("pausing report ...")
	if r.ask != nil {
		t.Error("a second change is asked for")
	}
	r.run(cmd)
}

// When the connection is gone the screen says so and keeps what it had; it goes on by itself once the engine is back.
func TestErrors(t *testing.T) {
	e := busy()
	e.err = events.Refuse(events.CodeUnavailable, "no engine answers at nats://here: start it")
	r := show(t, e).wants("no engine answers at nats://here: start it (unavailable)", "waiting for the engine", "--:--:--")
	e.err = nil
	r.run(r.look())
	r.wants("> email").wantsNot("no engine answers")
	e.err = errors.New("gone")
	r.run(r.look())
	r.wants("gone", "> email", "12:04:05!")
	e.err = nil
	r.run(r.look())
	r.wantsNot("gone", "12:04:05!")
	r.Update(noted("NATS: a permission is missing"))
	r.wants("NATS: a permission is missing")
	r.press("tab", "tab", "enter")
	r.e.items = nil
	r.run(r.look())
	r.wants("there is no item " + deadID + " (not_found)")
}

// One question is open at a time: a tick asks nothing then, and a page that is left has
// its question ended.
func TestOneQuestionAtATime(t *testing.T) {
	r := show(t, busy())
	open := r.look()
	if open == nil || r.look() != nil {
		t.Error("a second question is asked")
	}
	r.o.Now = func() time.Time { return now.Add(3 * time.Second) }
	r.Update(noted(""))
	r.wants("no answer for 3s")
	if cmd := r.hit("tab"); cmd != nil {
		t.Error("a question is asked while one is open")
	}
	r.wants("[workers]", "waiting for the engine")
	r.run(open) // its answer makes the page ask its own
	r.wants("> mailer-1").wantsAsked("workers")

	var ended error
	blocked := &blocking{busy(), func(ctx context.Context) { <-ctx.Done(); ended = ctx.Err() }}
	r.src = blocked
	open = r.look()
	r.hit("tab") // ends the question, so that this returns
	late := open()
	r.src = r.e
	_, next := r.Update(late)
	r.run(next)
	if r.wants("[items]", "> "+deadID); !errors.Is(ended, context.Canceled) {
		t.Errorf("the question has ended with %v", ended)
	}
}

// blocking is an engine that answers late.
type blocking struct {
	*engine
	wait func(context.Context)
}

func (b *blocking) Overview(ctx context.Context) (Overview, error) {
	b.wait(ctx)
	return Overview{}, ctx.Err()
}

func TestQuitting(t *testing.T) {
	for _, keys := range [][]string{{"q"}, {"ctrl+c"}, {"tab", "enter", "q"}, {"p", "ctrl+c"}, {"/", "ctrl+c"}, {"?", "ctrl+c"}} {
		r := show(t, busy()).press(keys[:len(keys)-1]...)
		cmd := r.hit(keys[len(keys)-1])
		if cmd == nil {
			t.Fatalf("%q: nothing is done", keys)
		}
		if _, quits := cmd().(tea.QuitMsg); !quits {
			t.Errorf("%q does not quit", keys)
		}
	}
	r := show(t, busy())
	if _, stops := r.hit("ctrl+z")().(tea.SuspendMsg); !stops {
		t.Error("ctrl+z does not suspend")
	}
}

func TestNotesAreBounded(t *testing.T) {
	n := make(Notes, 2)
	for range 5 {
		fmt.Fprintln(n, "said")
	}
	if len(n) != 2 || <-n != "said" {
		t.Error("a note is lost too early, or kept as it was printed")
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 9_999: "9999", 10_000: "10k", 12_345: "12.3k", 999_499: "999k", 999_500: "1M", 1_234_567: "1.23M", 999_500_000: "1G", 5e9: "5G"} {
		if got := short(n); got != want {
			t.Errorf("short(%v) is %q, want %q", n, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0", 0.004: "0.00", 0.05: "0.05", 1.25: "1.2", 99.9: "99.9", 1234: "1234"} {
		if got := rate(n); got != want {
			t.Errorf("rate(%v) is %q, want %q", n, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("日本", 50), strings.Repeat("a\u0301", 50), foreign + foreign} {
		for width := 1; width < 40; width++ {
			lines := wrap(text, width, 5)
			if len(lines) > 5 {
				t.Errorf("%d lines", len(lines))
			}
			for _, l := range lines {
				if wide(l) > width {
					t.Errorf("%q has %d columns, not %d", l, wide(l), width)
				}
			}
			if all := strings.Join(lines, ""); width > 30 && len(lines) < 5 && all != clean(text) {
				t.Errorf("%q became %q", clean(text), all)
			}
		}
	}
}
