package figures

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// model lists every queued item, from which a test computes the waits again.
type model struct {
	items []*events.Item
	seq   events.Seq
}

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func (m *model) change(now time.Time, rnd *rand.Rand) *core.Changes {
	m.seq++
	c := &core.Changes{Meta: events.Meta{Applied: m.seq, LastAt: now}}
	n := len(m.items)
	for range rnd.IntN(20) {
		switch k := rnd.IntN(10); {
		case k < 5 || len(m.items) == 0:
			c.Items = append(c.Items, core.ItemChange{New: m.add(now, rnd)})
		case n > 0:
			n--
			i := rnd.IntN(n + 1)
			old := m.items[i]
			m.items[i], m.items[n] = m.items[n], m.items[i]
			m.items = slices.Delete(m.items, n, n+1)
			next := *old
			if next.State = events.StateClaimed; k == 5 { // put back at once, for later
				next.State, next.AvailableAt = events.StateQueued, now.Add(time.Duration(rnd.Int64N(int64(time.Hour))))
				m.items = append(m.items, &next)
			}
			c.Items = append(c.Items, core.ItemChange{Old: old, New: &next})
		}
	}
	return c
}

func (m *model) add(now time.Time, rnd *rand.Rand) *events.Item {
	it := &events.Item{Type: "email", State: events.StateQueued, Priority: events.Priority(rnd.IntN(3)), OrderAt: now, QueuedAt: now}
	switch rnd.IntN(6) {
	case 0: // delayed
		it.AvailableAt = now.Add(time.Duration(rnd.Int64N(int64(10 * time.Minute))))
		it.OrderAt = it.AvailableAt
	case 1: // put back: an old place
		it.OrderAt = now.Add(-time.Duration(rnd.Int64N(int64(5 * time.Hour))))
	}
	m.items = append(m.items, it)
	return it
}

// scan gives what is queued to Load; between lets something happen in its midst.
func (m *model) scan(between func()) Scan {
	return func(begin func(events.Seq), count func(events.Type, events.Priority, int64) error) error {
		begin(m.seq)
		items := slices.Clone(m.items)
		for i, it := range items {
			if i == len(items)/2 {
				between()
			}
			if err := count(it.Type, it.Priority, Place(it.OrderAt, it.AvailableAt)); err != nil {
				return err
			}
		}
		return nil
	}
}

// check compares with the model: exact totals, and ages within their bounds. A
// delay may be known to 1/Precision only, so whether an item is due is as well.
func (m *model) check(t *testing.T, w rig, now time.Time) {
	t.Helper()
	by, all, ok := w.Waits("email", now)
	if !ok {
		t.Fatal("nothing is counted")
	}
	for p := range by {
		m.compare(t, by[p], now, func(it *events.Item) bool { return int(it.Priority) == p })
	}
	m.compare(t, all, now, func(*events.Item) bool { return true })
	if got := w.TotalWait(now); got != all {
		t.Fatalf("of all types %+v, of the only one %+v", got, all)
	}
}

func (m *model) compare(t *testing.T, got Wait, now time.Time, which func(*events.Item) bool) {
	t.Helper()
	var places []time.Time
	slack := Resolution // of the coarsest item
	for _, it := range m.items {
		if !which(it) {
			continue
		}
		at := time.Unix(0, Place(it.OrderAt, it.AvailableAt))
		places = append(places, at)
		far := max(now.Sub(at), at.Sub(now), at.Sub(it.QueuedAt))
		slack = max(slack, far/Precision)
	}
	if n := got.Waiting + got.Scheduled; n != int64(len(places)) {
		t.Fatalf("%d are counted, %d are queued", n, len(places))
	}
	slices.SortFunc(places, func(a, b time.Time) int { return cmp.Compare(b.UnixNano(), a.UnixNano()) })
	due := func(by time.Time) (n int) {
		for _, at := range places {
			if !at.After(by) {
				n++
			}
		}
		return n
	}
	if lo, hi := due(now.Add(-slack)), due(now.Add(slack)); int(got.Waiting) < lo || int(got.Waiting) > hi {
		t.Fatalf("%d wait, want %d to %d", got.Waiting, lo, hi)
	}
	if got.Waiting == 0 {
		return
	}
	// As many as it says are the youngest; the quantile must be near the rank's.
	waiting := places[len(places)-int(got.Waiting):]
	for _, q := range []struct {
		percent int
		got     time.Duration
	}{{50, got.P50}, {95, got.P95}, {100, got.Oldest}} {
		rank := (len(waiting)*q.percent + 99) / 100
		want := now.Sub(waiting[rank-1])
		if d := (q.got - want).Abs(); d > slack {
			t.Fatalf("p%d of %d is %v, want %v within %v", q.percent, len(waiting), q.got, want, slack)
		}
	}
}

func TestWaitsAreThoseOfTheItems(t *testing.T) {
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		m, w, now := &model{}, newRig(), start
		w.Feed(m.change(now, rnd)) // before the load: of no consequence
		if _, _, ok := w.Waits("email", now); ok {
			t.Fatal("it claims to know before it is loaded")
		}
		if err := w.Load(now, m.scan(func() {})); err != nil {
			t.Fatal(err)
		}
		for i := range 400 {
			now = now.Add(time.Duration(rnd.Int64N(int64(20 * time.Second))))
			w.Feed(m.change(now, rnd))
			if i%100 == 50 { // anew, with changes while it reads
				if err := w.Load(now, m.scan(func() {
					for range 5 {
						now = now.Add(time.Second)
						w.Feed(m.change(now, rnd))
					}
				})); err != nil {
					t.Fatal(err)
				}
			}
			if i%10 == 0 {
				m.check(t, w, now)
			}
		}
		m.check(t, w, now)
	}
}

func TestWaitsStayFew(t *testing.T) {
	w, now := newRig(), start
	m := &model{}
	if err := w.Load(now, m.scan(func() {})); err != nil {
		t.Fatal(err)
	}
	for i := range 200_000 { // two a second, for more than a day, and none is taken
		now = now.Add(500 * time.Millisecond)
		it := &events.Item{Type: "email", State: events.StateQueued, OrderAt: now}
		w.Feed(&core.Changes{Meta: events.Meta{Applied: events.Seq(i + 1), LastAt: now}, Items: []core.ItemChange{{New: it}}})
	}
	if n, most := len(w.types["email"].queues[0].buckets), 2*2*Precision*16; n > most {
		t.Errorf("%d buckets, want %d at most", n, most)
	}
	_, all, _ := w.Waits("email", now)
	day := 100_000 * time.Second
	if all.Waiting != 200_000 || (all.P50-day/2).Abs() > day/2/Precision || (all.P95-day*95/100).Abs() > day/Precision {
		t.Errorf("%+v", all)
	}
	if n := w.LongerThan("email", 0, day/2, now); n < 96_000 || n > 104_000 {
		t.Errorf("%d wait for longer than half of the time", n)
	}
}

// A type that is forgotten and comes back in one batch counts from there.
func TestTypeComesBack(t *testing.T) {
	w, now := newRig(), start
	m := &model{}
	if err := w.Load(now, m.scan(func() {})); err != nil {
		t.Fatal(err)
	}
	back := &events.Item{Type: "email", State: events.StateQueued, OrderAt: now}
	w.Feed(&core.Changes{
		Meta: events.Meta{Applied: 3, LastAt: now}, Forgotten: []events.Type{"email", "gone"}, Types: []events.TypeInfo{{Type: "email"}},
		Items:   []core.ItemChange{{New: back}},
		History: []events.Event{{Seq: 1, Kind: events.KindTypeForgotten, Type: "gone", At: now, Body: &events.TypeForgotten{}}},
	})
	if _, all, _ := w.Waits("email", now); all.Waiting != 1 {
		t.Errorf("%+v", all)
	}
	if w.types["gone"] != nil {
		t.Error("the type that is gone is kept")
	}
	w.Feed(&core.Changes{
		Meta: events.Meta{Applied: 4, LastAt: now}, Types: []events.TypeInfo{{Type: "email"}},
		Items: []core.ItemChange{{Old: back, New: &events.Item{Type: "email", State: events.StateClaimed}}},
	})
	if _, all, _ := w.Waits("email", now); all.Waiting != 0 {
		t.Errorf("%+v", all)
	}
}

func BenchmarkWaitsFeed(b *testing.B) {
	w, now := newRig(), start
	if err := w.Load(now, (&model{}).scan(func() {})); err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		now = now.Add(50 * time.Microsecond)
		it := &events.Item{Type: "email", State: events.StateQueued, OrderAt: now}
		gone := *it
		gone.State = events.StateClaimed
		w.Feed(&core.Changes{Meta: events.Meta{Applied: events.Seq(2*i + 1), LastAt: now}, Items: []core.ItemChange{{New: it}}})
		w.Feed(&core.Changes{Meta: events.Meta{Applied: events.Seq(2*i + 2), LastAt: now}, Items: []core.ItemChange{{Old: it, New: &gone}}})
	}
}
