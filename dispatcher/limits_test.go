package dispatcher

import (
	"fmt"
	"testing"
	"time"

	"github.com/streamwright/streamwright/dispatcher/lanes"
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

// claims pulls and claims all there is, and returns the codes of the refusals
// ("" for a grant), with the granted runs.
func (s *sim) claims(typ events.Type) (codes []events.Code, granted []*simMsg) {
	s.t.Helper()
	for m := s.world.pull(lanes.Key{Type: typ, Name: ""}); m != nil; m = s.world.pull(lanes.Key{Type: typ, Name: ""}) {
		r := s.report(wire.Report{ID: m.id.String(), Token: m.token.String(), Worker: "w", Event: wire.ReportClaim, Start: true})[0]
		if r.OK {
			codes, granted = append(codes, ""), append(granted, m)
			continue
		}
		codes = append(codes, r.Error.Code)
	}
	return codes, granted
}

func (s *sim) complete(m *simMsg) {
	s.t.Helper()
	r := s.report(wire.Report{ID: m.id.String(), Token: m.token.String(), Worker: "w", Event: wire.ReportComplete})[0]
	if !r.OK {
		s.t.Fatalf("%+v", r.Error)
	}
	delete(s.world.msgs, m.seq)
}

// What was sent before a limit was narrowed is refused at its claim, put back,
// and sent once there is room; not before, and not over and over.
func TestClaimsBeyondANarrowedLimit(t *testing.T) {
	for name, edit := range map[string]func(*events.TypeSettings){
		"type":  func(s *events.TypeSettings) { s.Capacity = 1 },
		"group": func(s *events.TypeSettings) { s.GroupCapacity = 1 },
		"pool":  func(s *events.TypeSettings) { s.Pool = "one" },
		"rate": func(s *events.TypeSettings) {
			s.Rates = []events.RateLimit{{Per: events.PerType, At: events.AtDispatch, N: 1, IntervalMS: 10_000}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, func(c *Config) { c.Limits.Pools = map[string]events.Pool{"one": {Slots: 1}} })
			s.register("w", 4, nil, "email")
			for range 3 {
				s.submit(core.Submit{Tenant: "acme"})
			}
			s.limit("email", edit)
			codes, granted := s.claims("email")
			want := events.CodeAtCapacity
			if name == "rate" {
				want = events.CodeRateLimited
			}
			if fmt.Sprint(codes) != fmt.Sprint([]events.Code{"", want, want}) || len(s.world.msgs) != 1 || s.world.pushes != 3 {
				t.Fatalf("claims %q, %d messages, %d pushes", codes, len(s.world.msgs), s.world.pushes)
			}
			s.tick(5 * time.Second)
			if s.world.pushes != 3 {
				t.Fatalf("%d pushes", s.world.pushes)
			}
			for i := range 2 {
				s.complete(granted[0])
				s.tick(5 * time.Second)
				if s.world.pushes != 4+i {
					t.Fatalf("%d pushes, %d expected", s.world.pushes, 4+i)
				}
				if codes, granted = s.claims("email"); fmt.Sprint(codes) != "[]" || len(granted) != 1 {
					t.Fatalf("%q", codes)
				}
				s.tick(5 * time.Second)
			}
			s.complete(granted[0])
			s.check()
		})
	}
}

// With nothing to do but wait for a limit, the loop sleeps until its very time.
func TestALimitIsNotPolled(t *testing.T) {
	s := newSim(t, nil)
	s.register("w", 4, nil, "email")
	s.limit("email", func(set *events.TypeSettings) {
		set.Rates = []events.RateLimit{{Per: events.PerTenant, At: events.AtDispatch, N: 1, IntervalMS: 30_000}}
	})
	for range 3 {
		s.submit(core.Submit{Tenant: "acme"})
	}
	at := s.at
	_, granted := s.claims("email")
	s.complete(granted[0])
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
