package dispatcher

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// Misspelt types use up all that there may be. Those that nobody needs make room
// within two sweeps; what has items, settings or a worker stays.
func TestMisspeltTypesLockNobodyOut(t *testing.T) {
	slow(t)
	s := newSim(t, func(c *Config) {
		c.FileTypes = map[events.Type]func(events.TypeSettings) events.TypeSettings{"in-file": func(s events.TypeSettings) events.TypeSettings { return s }}
	})
	waiting := s.submit(core.Submit{Type: "waiting"}).Decision.ID
	s.register("w", 1, []string{"gpu"}, "served")
	s.submit(core.Submit{Type: "served", Capabilities: []string{"gpu"}})
	s.drain("")
	set := events.DefaultTypeSettings()
	set.Capacity = 3
	s.ok(s.do(core.Configure{Type: "set", Source: events.SourceAPI, Settings: set})[0].Err)
	for i := 0; len(s.l.state.TypeNames()) < events.MaxTypes; i++ {
		name := events.Type(fmt.Sprint("misspelt-", i))
		s.ok(s.do(core.Define{Type: name})[0].Err)
	}
	refused := s.do(core.Submit{Type: "email", NewID: s.newID()})[0].Err
	if events.CodeOf(refused) != events.CodeTooManyTypes {
		t.Fatal(refused)
	}
	s.tick(2 * s.cfg.Sweep)
	s.crash()
	s.register("w", 1, []string{"gpu"}, "served")
	s.submit(core.Submit{Type: "email"})
	for i := range 5 {
		s.tick(s.cfg.Sweep)
		_ = i
	}
	if n := len(s.l.state.TypeNames()); n > events.MaxTypes-typesFree+1 || n < events.MaxTypes-typesFree-maxForget {
		t.Fatalf("%d types", n)
	}
	s.tick(typeIdle + 10*s.cfg.Sweep)
	names := s.l.state.TypeNames()
	if fmt.Sprint(names) != "[email in-file served set waiting]" {
		t.Fatalf("%d types are left: %v", len(names), names[:min(len(names), 10)])
	}
	if len(s.l.leases.of) > len(names) || len(slices.Collect(s.l.ready.Types())) > len(names) || len(s.l.sender.marks) > len(names) {
		t.Fatalf("%d leases, %d queues", len(s.l.leases.of), len(slices.Collect(s.l.ready.Types())))
	}
	if s.item(waiting).State != events.StateQueued {
		t.Fatal("the item that waits is gone")
	}
	s.check()
}

// Who asks for more types than there may be does not have them forgotten and
// made anew with each request, which would fill the log.
func TestRefusedTypesDoNotTurnOver(t *testing.T) {
	slow(t)
	s := newSim(t, nil)
	more := make([]core.Command, 0, events.MaxTypes+1)
	for i := range events.MaxTypes + 1 {
		more = append(more, core.Define{Type: events.Type(fmt.Sprint("made-up-", i))})
	}
	s.do(more...)
	s.do(more...)
	before := s.l.state.Meta().Applied
	for range 10 {
		if last := s.do(more...)[events.MaxTypes]; events.CodeOf(last.Err) != events.CodeTooManyTypes {
			t.Fatal(last.Err)
		}
	}
	if n := s.l.state.Meta().Applied - before; n > 0 {
		t.Errorf("ten refused requests have made %d events", n)
	}
	s.check()
}

// A type that comes back is served as before.
func TestForgottenTypeComesBack(t *testing.T) {
	h := newHarness(t, nil)
	h.do(core.Define{Type: "email"})
	h.do(core.ForgetType{Type: "email"})
	h.register("w", 1, "email")
	id := h.submit("email")
	m := h.pull("email")
	if r := h.begin(m); !r.OK {
		t.Fatalf("%+v", r)
	}
	if r := h.report(reportOf(m, wire.ReportComplete)); !r[0].OK {
		t.Fatalf("%+v", r)
	}
	if it := h.item(id); it.State != events.StateCompleted {
		t.Fatalf("%+v", it)
	}
	if types, err := h.store.Types(); err != nil || len(types) != 1 || types[0].Type != "email" {
		t.Fatalf("%v %v", types, err)
	}
}

// A type is not removed that a worker serves, or that engine.toml names.
func TestRemoveTypeInUse(t *testing.T) {
	s := newSim(t, func(c *Config) {
		c.FileTypes = map[events.Type]func(events.TypeSettings) events.TypeSettings{"in-file": func(s events.TypeSettings) events.TypeSettings { return s }}
	})
	remove := func(name events.Type) error { return s.do(core.RemoveType{Type: name})[0].Err }
	if err := remove("in-file"); events.CodeOf(err) != events.CodeSetInFile || !strings.Contains(err.Error(), "engine.toml") {
		t.Error(err)
	}
	s.register("w-1", 1, nil, "served")
	if err := remove("served"); events.CodeOf(err) != events.CodeWrongState || !strings.Contains(err.Error(), "worker w-1 serves it") {
		t.Error(err)
	}
	set := events.DefaultTypeSettings()
	set.Capacity = 3
	s.ok(s.do(core.Configure{Type: "misspelt", Source: events.SourceAPI, Settings: set})[0].Err)
	s.ok(remove("misspelt"))
	if events.CodeOf(remove("misspelt")) != events.CodeNotFound {
		t.Error("it was removed twice")
	}
	s.check()
}
