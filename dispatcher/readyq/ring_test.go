package readyq

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/projector/ready"
)

var begin = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// ringWorld is ready queues over a real store, without a loop.
type ringWorld struct {
	t         *testing.T
	store     *projector.Store
	r         *Queues
	ids       int
	applied   events.Seq
	pending   []core.ItemChange // not projected
	groupOpen func(group string) (bool, time.Time, error)
	sent      sent
}

func newRingWorld(t *testing.T) *ringWorld {
	store, err := projector.Open("", projector.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return &ringWorld{t: t, store: store}
}

func (w *ringWorld) item(group string) *events.Item {
	w.ids++
	it := &events.Item{Type: "email", State: events.StateQueued, Priority: 5, Group: group, CreatedAt: begin, QueuedAt: begin,
		OrderAt: begin.Add(time.Duration(w.ids) * time.Microsecond)}
	for i := range 8 {
		it.ID[15-i] = byte(w.ids >> (8 * i))
	}
	return it
}

// put projects items.
func (w *ringWorld) put(items ...*events.Item) {
	c := &core.Changes{}
	for _, it := range items {
		c.Items = append(c.Items, core.ItemChange{New: it})
	}
	w.applied++
	c.Meta.Applied = w.applied
	if err := w.store.Commit(c); err != nil {
		w.t.Fatal(err)
	}
}

// sent is what was dispatched, of lanes that nobody asks about.
type sent map[events.ID]events.Token

func (s sent) Current(id events.ID) events.Token { return s[id] }

// open makes the queues, as at a takeover.
func (w *ringWorld) open() {
	w.sent = sent{}
	w.r = New(w.store, w.sent)
	w.r.Unprojected = func(fn func(before, after *events.Item)) {
		for _, c := range w.pending {
			fn(c.Old, c.New)
		}
	}
}

// next takes the next item, "" for none, and checks the bounds.
func (w *ringWorld) next() (group string, id events.ID, ok bool) {
	w.t.Helper()
	for range 100_000 {
		b, ok, stalled, err := w.r.Best(Pick{Type: "email", AgeStep: time.Second, Now: begin.Add(time.Hour), Due: begin.Add(time.Hour), Last: begin.Add(time.Hour), Admits: func(string) bool { return true }, Open: w.groupOpen})
		if err != nil {
			w.t.Fatal(err)
		}
		w.bounds()
		if stalled {
			continue
		}
		if ok {
			b.Take()
			w.sent[b.Key.ID] = events.Token(len(w.sent) + 1)
		}
		return b.group, b.Key.ID, ok
	}
	w.t.Fatal("it stalls for ever")
	return "", events.ID{}, false
}

// shared is the lane that all items are in.
func (w *ringWorld) shared() *lane {
	w.t.Helper()
	tl, err := w.r.of("email")
	if err != nil {
		w.t.Fatal(err)
	}
	return tl.lane("")
}

func (w *ringWorld) bounds() {
	w.t.Helper()
	for _, lv := range w.shared().levels {
		if lv == nil || lv.ring == nil {
			continue
		}
		if n := lv.ring.groups.Len(); n > maxGroups {
			w.t.Fatalf("%d groups in memory", n)
		}
		lv.ring.groups.Scan(func(g *group) bool {
			if n := g.win.set.Len(); n > maxKeys+groupPage {
				w.t.Fatalf("%d keys of group %s in memory", n, g.name)
			}
			return true
		})
	}
}

// A hundred thousand groups take turns in order of name, round by round, with
// few of them in memory.
func TestManyGroupsTakeTurns(t *testing.T) {
	slow(t)
	w := newRingWorld(t)
	const groups = 100_000
	items := make([]*events.Item, 0, 2*groups)
	for range 2 {
		for g := groups - 1; g >= 0; g-- {
			items = append(items, w.item(fmt.Sprintf("g%06d", g)))
		}
	}
	w.put(items...)
	w.open()
	for round := range 2 {
		for g := range groups {
			if got, _, ok := w.next(); !ok || got != fmt.Sprintf("g%06d", g) {
				t.Fatalf("round %d: group %q after g%06d (%v)", round, got, g-1, ok)
			}
		}
	}
	if got, _, ok := w.next(); ok {
		t.Fatalf("one more: %q", got)
	}
}

// One group with very many items does not keep others from their turn, nor
// grows memory; each group is first in, first out.
func TestOneGroupOfManyItems(t *testing.T) {
	w := newRingWorld(t)
	var items []*events.Item
	for range 5000 {
		items = append(items, w.item("flood"))
	}
	for range 3 {
		items = append(items, w.item("zoo"), w.item(""))
	}
	w.put(items...)
	w.open()
	order := ""
	last := map[string]events.ID{}
	n := 0
	for got, id, ok := w.next(); ok; got, id, ok = w.next() {
		if string(id[:]) <= string(func() []byte { x := last[got]; return x[:] }()) {
			t.Fatalf("%s of group %q came after %s", id, got, last[got])
		}
		last[got] = id
		if n++; n <= 10 {
			order += "[" + got + "]"
		}
	}
	if n != len(items) || order != "[][flood][zoo][][flood][zoo][][flood][zoo][flood]" {
		t.Fatalf("%d items, %s", n, order)
	}
}

// What is not projected yet takes its turn: groups and items that the index
// does not have, and not those that it still has and that are gone.
func TestTurnsOfWhatIsNotProjected(t *testing.T) {
	w := newRingWorld(t)
	var items []*events.Item
	for g := range 1000 {
		items = append(items, w.item(fmt.Sprintf("g%04d", 2*g)))
	}
	w.put(items...)
	w.open()
	for g := range 1000 {
		it := w.item(fmt.Sprintf("g%04d", 2*g+1))
		w.pending = append(w.pending, core.ItemChange{New: it})
		if err := w.r.Insert(it); err != nil {
			w.t.Fatal(err)
		}
	}
	gone := *items[500]
	gone.State = events.StateCancelled
	w.pending = append(w.pending, core.ItemChange{Old: items[500], New: &gone})
	w.r.Remove(items[500])
	for g := range 2000 {
		if g == 1000 {
			continue
		}
		if got, _, ok := w.next(); !ok || got != fmt.Sprintf("g%04d", g) {
			t.Fatalf("group %q in the turn of g%04d (%v)", got, g, ok)
		}
	}
	if _, _, ok := w.next(); ok {
		t.Fatal("one came twice")
	}
}

// Groups that are held are passed over, remembered up to a bound, and have
// their turn when they are released; those past the bound are looked for again.
func TestHeldGroups(t *testing.T) {
	slow(t)
	w := newRingWorld(t)
	const groups = maxThrottled + 1000
	items := make([]*events.Item, groups)
	for g := range items {
		items[g] = w.item(fmt.Sprintf("g%06d", g))
	}
	w.put(items...)
	w.open()
	h, open := &w.r.throttled, false
	until := begin.Add(2 * time.Hour)
	w.groupOpen = func(group string) (bool, time.Time, error) {
		return open || group == "g000777", until, nil
	}
	if got, _, ok := w.next(); !ok || got != "g000777" {
		t.Fatalf("group %q %v", got, ok)
	}
	if got, _, ok := w.next(); ok {
		t.Fatalf("group %q", got)
	}
	if len(h.byKey) != maxThrottled+1 || !h.next().Equal(until) {
		t.Fatalf("%d holds, the first until %s", len(h.byKey), h.next())
	}
	open = true
	h.release(throttleKey{typ: "email", group: "g000042"})
	if got, _, ok := w.next(); !ok || got != "g000042" {
		t.Fatalf("group %q %v", got, ok)
	}
	for key := range h.byKey {
		h.release(key)
	}
	if len(h.timed) != 0 {
		t.Fatalf("%d are still in the heap", len(h.timed))
	}
	n := 0
	for _, _, ok := w.next(); ok; _, _, ok = w.next() {
		n++
	}
	if n != groups-2 {
		t.Fatalf("%d of %d came", n, groups-2)
	}
}

// A queue whose items have no groups any more is as cheap as one that never
// had any.
func TestRingBecomesPlainAgain(t *testing.T) {
	w := newRingWorld(t)
	w.open()
	for _, g := range []string{"a", "", "b", ""} {
		it := w.item(g)
		w.pending = append(w.pending, core.ItemChange{New: it})
		if err := w.r.Insert(it); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, want := range []string{"", "a", "b", ""} {
		if got, _, ok := w.next(); !ok || got != want {
			t.Fatalf("group %q, want %q (%v)", got, want, ok)
		}
	}
	if _, _, ok := w.next(); ok {
		t.Fatal("one more")
	}
	if lv := w.r.level(w.shared(), 5); lv.ring != nil || lv.plain.most != WindowMax || !lv.plain.complete {
		t.Fatalf("%+v", lv)
	}
}

// An item that is not in its queue leads its group if nothing of the group that waits at its
// priority goes before it; not, if some of it may be in the index alone.
func TestWhatLeadsItsGroup(t *testing.T) {
	w := newRingWorld(t)
	first, second, other, none := w.item("g"), w.item("g"), w.item("h"), w.item("")
	leads := func(want string) {
		t.Helper()
		got := ""
		for i, it := range []*events.Item{first, second, other, none} {
			if w.r.Leads(queueOf(it), it.Group, ready.KeyOf(it)) {
				got += strconv.Itoa(i + 1)
			}
		}
		if got != want {
			t.Fatalf("these lead: %q, want %q", got, want)
		}
	}
	w.open()
	leads("4")
	w.shared()
	leads("1234")
	if err := w.r.Insert(first); err != nil {
		t.Fatal(err)
	}
	w.put(first)
	leads("134")
	if _, id, ok := w.next(); !ok || id != first.ID {
		t.Fatalf("%s %v comes", id, ok)
	}
	leads("1234")

	w.open() // as at a takeover: nothing was read yet
	w.shared()
	leads("4")
	if _, id, ok := w.next(); !ok || id != first.ID {
		t.Fatalf("%s %v comes", id, ok)
	}
	leads("34") // what follows in the index is not read yet
}
