package dispatcher

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// As TestChaos, with items that are kept for seconds, and a log that is cut all
// the time: crashes, lost appends and rivals fall into every stage of a round.
// What is left of the log still gives the live store.
func TestChaosWithCuts(t *testing.T) {
	slow(t)
	noRace(t)
	cuts, pruned, carried := 0, int64(0), 0
	for seed := range max(30, seeds(30)) { // fewer might not come to all that is asked for below
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			c := newChaos(t, seed)
			c.cfg.CutEvents = 40
			set, _ := c.l.state.Settings("email")
			set.Retain = events.Retention{Completed: events.Millis(20_000), Dead: events.Millis(40_000), Cancelled: events.Millis(1), Merged: events.Millis(1)}
			c.toRest(func() {
				c.do(core.Configure{Type: "email", Source: events.SourceAPI, Settings: set}, core.Configure{Type: remindType, Source: events.SourceAPI, Settings: set})
			}) // or a crash may lose it
			for range 400 {
				c.one()
				switch c.rng.IntN(30) {
				case 0:
					c.cut()
					c.settle()
				case 1:
					c.log.ScriptPurges(logtest.PurgeFault(c.rng.IntN(3)))
				case 2:
					if c.rng.IntN(3) == 0 {
						c.dropStore()
					}
				case 3:
					c.purgeRejected()
				}
				c.rest()
			}
			c.log.ScriptPurges()
			c.finish()
			c.check()
			c.ok(c.rejectedAsTheLogSays())
			carried += c.carriedRejected()
			c.ok(c.verify())
			if c.gone != nil {
				cuts++
			}
			pruned += c.l.state.Meta().Pruned
			c.tick(time.Hour)
			if n := c.retained().Retained; n != 0 {
				t.Fatalf("%d items are kept for good", n)
			}
			if held := c.retained().Events; held > 400 {
				t.Fatalf("the log holds %d events, of no item", held)
			}
			c.check()
		})
	}
	if cuts < 10 || pruned == 0 || carried == 0 {
		t.Fatalf("%d logs were cut, %d items pruned, %d rejected submissions re-stated", cuts, pruned, carried)
	}
}

// An item that is touched all the time does not keep a round from its end: what
// has to wait for the projection for too long stops everything else for a
// moment.
func TestHotItemIsCarried(t *testing.T) {
	s := newSim(t, func(c *Config) { c.CutEvents = 1 << 30 })
	hot := s.submit(core.Submit{DedupKey: "hot"}).Decision.ID
	s.cut()
	for i := 0; s.l.state.Meta().CutAt == 0; i++ {
		if i > 2000 {
			t.Fatalf("the round does not end: %+v", s.retained())
		}
		// Something of the hot item is always on its way to the projection.
		p := events.Priority(i % 2)
		s.l.queues.urgent.jobs = append(s.l.queues.urgent.jobs, &commandJob{cmds: []core.Command{core.Reschedule{ID: hot, Priority: &p}}, done: func([]Outcome) {}})
		if _, err := s.step(); err != nil {
			t.Fatal(err)
		}
		s.at = s.at.Add(20 * time.Millisecond)
	}
	s.settle()
	s.check()
}

// A log of a million items that come and go stays as short as what is retained:
// here with fewer.
func TestLogAndStoreStayBounded(t *testing.T) {
	slow(t)
	const cutEvents, bound = 2000, 75_000
	items := 20_000
	if v, err := strconv.Atoi(os.Getenv("RETENTION_ITEMS")); err == nil {
		items = v
	}
	s := newSim(t, func(c *Config) {
		c.CutEvents = cutEvents
		c.Defaults.Retain = events.Retention{Completed: events.Millis(5000)}
	})
	s.register("w", 1000, nil, "email")
	most := int64(0)
	for n := 0; n < items; n += 1000 {
		cmds := make([]core.Command, 1000)
		for i := range cmds {
			cmds[i] = core.Submit{Type: "email", NewID: s.newID()}
		}
		s.do(cmds...)
		for m := s.take("email"); m != nil; m = s.take("email") {
			s.report(m.report(wire.ReportStart), m.report(wire.ReportComplete))
		}
		s.tick(time.Second)
		most = max(most, s.retained().Events)
	}
	s.tick(2 * time.Minute)
	left, all := s.retained().Events, s.l.state.Meta().Events
	t.Logf("%d events in all, at most %d in the log, %d in the end; %d items left, store %d bytes", all, most, left, s.retained().Retained, s.store.DiskBytes())
	// While it runs: what comes in the 5 s of retention, and while a round is
	// carried and synced, whatever has come before; in the end, next to nothing.
	if most > bound || all < 130_000 || left > cutEvents+100 || s.retained().Retained != 0 {
		t.Fatalf("the log held %d events, and %d are left", most, left)
	}
	s.check()
}
