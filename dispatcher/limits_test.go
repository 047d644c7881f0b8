package dispatcher

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

func (s *sim) limit(typ events.Type, edit func(*events.TypeSettings)) {
	s.t.Helper()
	set, _ := s.l.state.Settings(typ)
	edit(&set)
	if o := s.do(core.Configure{Type: typ, Source: events.SourceAPI, Settings: set}); o[0].Err != nil {
		s.t.Fatal(o[0].Err)
	}
}

// begun starts everything of a type that is sent, and returns the runs.
func (s *sim) begun(typ events.Type) (runs []*simRun) {
	s.t.Helper()
	for m := s.take(typ); m != nil; m = s.take(typ) {
		s.begin(m)
		runs = append(runs, m)
	}
	return runs
}

// Once a limit is narrowed, nothing is sent before there is room, and then one after the
// other.
func TestANarrowedLimit(t *testing.T) {
	for name, edit := range map[string]func(*events.TypeSettings){
		"type":  func(s *events.TypeSettings) { s.Capacity = 1 },
		"group": func(s *events.TypeSettings) { s.GroupCapacity = 1 },
		"pool":  func(s *events.TypeSettings) { s.Pool = "one" },
		"rate": func(s *events.TypeSettings) {
			s.Rates = []events.RateLimit{{Per: events.PerType, At: events.AtDispatch, N: 1, Interval: events.Millis(5000)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, func(c *Config) { c.Limits.Pools = map[string]events.Pool{"one": {Slots: 1}} })
			s.register("w", 4, nil, "email")
			for range 3 {
				s.submit(core.Submit{Tenant: "acme"})
			}
			runs := s.begun("email")
			s.limit("email", edit)
			for range 3 {
				s.submit(core.Submit{Tenant: "acme"})
			}
			if len(runs) != 3 || name != "rate" && s.world.pushes != 3 {
				t.Fatalf("%d runs, %d sent", len(runs), s.world.pushes)
			}
			for _, m := range runs[:2] {
				if s.complete(m); name != "rate" && s.world.pushes != 3 {
					t.Fatalf("%d sent before there is room", s.world.pushes)
				}
			}
			s.complete(runs[2])
			for i := range 3 {
				if runs := s.begun("email"); len(runs) != 1 || s.world.pushes != 4+i {
					t.Fatalf("%d runs, %d sent, %d expected", len(runs), s.world.pushes, 4+i)
				} else if s.complete(runs[0]); name == "rate" {
					s.tick(5 * time.Second)
				}
			}
			s.check()
		})
	}
}

// The first item of a new type waits for the type's pool like any other.
func TestANewTypeDoesNotPassItsPool(t *testing.T) {
	s := newSim(t, func(c *Config) {
		c.Limits.Pools = map[string]events.Pool{"one": {Slots: 1}}
		c.Defaults.Pool = "one"
	})
	types := []string{"a", "b", "c"}
	s.register("w", 4, nil, types...)
	for _, typ := range types {
		s.submit(core.Submit{Type: events.Type(typ)})
		if n := s.l.table.Total(); n != 1 {
			t.Fatalf("%d run in a pool of one", n)
		}
	}
	for range types {
		m := s.take("")
		if m == nil {
			t.Fatal("nothing is sent: the worker rests")
		}
		s.run(m)
	}
	s.check()
}

// With nothing to do but wait for a limit, the loop sleeps until its very time.
func TestALimitIsNotPolled(t *testing.T) {
	s := newSim(t, nil)
	s.register("w", 4, nil, "email")
	s.limit("email", func(set *events.TypeSettings) {
		set.Rates = []events.RateLimit{{Per: events.PerTenant, At: events.AtDispatch, N: 1, Interval: events.Millis(30_000)}}
	})
	for range 3 {
		s.submit(core.Submit{Tenant: "acme"})
	}
	at := s.at
	s.complete(s.begun("email")[0])
	if next := s.l.ready.NextRelease(); !next.Equal(at.Add(30 * time.Second)) {
		t.Fatalf("it is held until %s", next)
	}
	steps := 0
	s.onStage = func(stage string) {
		if stage == "decide" {
			steps++
		}
	}
	s.tick(29 * time.Second)
	if n := s.l.table.Total(); n != 0 || steps > 10 {
		t.Fatalf("%d on their way, %d steps of the loop", n, steps)
	}
	s.tick(time.Second)
	if n := s.l.table.Total(); n != 1 || s.at.Sub(at) != 30*time.Second {
		t.Fatalf("%d on their way", n)
	}
	s.check()
}

// A worker gets no more than it offers. An owner that does not know its offer asks for it
// with each of its heartbeats.
func TestOffersAreKept(t *testing.T) {
	s := newSim(t, nil)
	reg := wire.Register{Worker: "w", Session: s.session("w"), Types: []string{"email"}, Slots: 3, Offers: true}
	beat := func(room int) {
		t.Helper()
		err := s.reg.Put(reg, s.l.clock.Now())
		s.ok(err)
		s.settle()
		s.l.signals.Heartbeat(&wire.Heartbeat{Register: reg})
		if room >= 0 {
			s.l.signals.Offered(&wire.Offer{Worker: "w", Session: reg.Session, Room: room})
		}
		s.world.told = nil
		s.settle()
	}
	for range 4 {
		s.submit(core.Submit{})
	}
	for range 2 { // the second time it is a new owner
		if beat(-1); len(s.world.sent) != 0 || len(s.world.told) != 1 {
			t.Fatalf("without an offer %d are sent; told %q", len(s.world.sent), s.world.told)
		}
		if beat(1); len(s.world.sent) != 1 {
			t.Fatalf("%d are sent to one that takes 1", len(s.world.sent))
		}
		for _, m := range s.begun("email") {
			s.complete(m)
		}
		if beat(-1); len(s.world.sent) != 0 || len(s.world.told) != 0 {
			t.Fatalf("after its offer is used %d are sent; told %q", len(s.world.sent), s.world.told)
		}
		s.crash()
	}
	s.check()
}
