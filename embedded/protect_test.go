package embedded

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// failing runs a worker that fails each item of some types.
func failing(t *testing.T, e *Engine, types ...string) {
	t.Helper()
	w, err := workers.New(mustClient(t, e).Conn(), workers.Config{ID: "w1", Concurrency: 4, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range types {
		workers.HandleRaw(w, typ, func(context.Context, *workers.RawItem) (any, error) { return nil, errors.New("it is broken") })
	}
	if err := w.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(testContext(t)); err != nil {
			t.Error(err)
		}
	})
}

func circuitOf(t *testing.T, e *Engine, typ string) *wire.Circuit {
	t.Helper()
	for _, r := range request[wire.TypesReply](t, e, wire.APITypes, wire.StatsRequest{}).Types {
		if r.Type == typ {
			return r.Circuit
		}
	}
	return nil
}

// A type of which everything fails is held back after so many failures in a row,
// and most of its items live; with the circuit off they all die.
func TestTypeCircuitByDefault(t *testing.T) {
	slow(t)
	t.Parallel()
	const items = 2 * events.DefaultConsecutive
	e := mustStart(t, Options{Memory: true, Config: configOf(t, "[types.unprotected.circuit]\nconsecutive = 0\n")})
	for _, typ := range []string{"broken", "unprotected"} {
		for range items {
			submit(t, e, wire.Submit{Type: typ, MaxAttempts: 1})
		}
	}
	failing(t, e, "broken", "unprotected")
	await(t, "the circuit is open", func() bool {
		c := circuitOf(t, e, "broken")
		return c != nil && c.State == events.CircuitOpen.String()
	})
	count := func(typ string) (dead int64) {
		for _, s := range request[wire.StatsReply](t, e, wire.APIStats, wire.StatsRequest{}).Types {
			if s.Type == typ {
				dead = s.States[events.StateDead.String()]
			}
		}
		return dead
	}
	await(t, "all of the other have died", func() bool { return count("unprotected") == items })
	if c := circuitOf(t, e, "unprotected"); c != nil {
		t.Errorf("it has a circuit: %+v", c)
	}
	if n := count("broken"); n < events.DefaultConsecutive || n > events.DefaultConsecutive+20 { // those that ran when it opened
		t.Errorf("%d of %d are dead", n, items)
	}
}

// Types that an engine recorded before it protected them stay as they were, and
// the log says the same as before.
func TestProtectionChangesNoRecordedType(t *testing.T) {
	o := quiet(t.TempDir())
	o.Config = configOf(t, "[defaults]\nmax_queued = 0\ncircuit = { consecutive = 0 }\n")
	e := mustStart(t, o)
	submit(t, e, wire.Submit{Type: "old"})
	stopEngine(t, e)
	o.Config = configOf(t, "")
	e = mustStart(t, o)
	submit(t, e, wire.Submit{Type: "new"})
	for _, r := range request[wire.TypesReply](t, e, wire.APITypes, wire.StatsRequest{}).Types {
		if protected := r.Settings.Circuit.On() && r.Settings.MaxQueued == events.DefaultMaxQueued; protected != (r.Type == "new") {
			t.Errorf("type %s: %+v", r.Type, r.Settings)
		}
	}
}

// What [defaults] and [retention] set reaches the types that are known already, but
// for those that someone has configured through the API.
func TestDefaultsOfTheFileReachRecordedTypes(t *testing.T) {
	o := quiet(t.TempDir())
	start := func(file string) *Engine {
		o.Config = configOf(t, file)
		return mustStart(t, o)
	}
	settings := func(e *Engine) map[string]wire.TypeReply {
		types := map[string]wire.TypeReply{}
		for _, r := range request[wire.TypesReply](t, e, wire.APITypes, wire.StatsRequest{}).Types {
			types[r.Type] = r
		}
		return types
	}
	e := start("[types.filed]\nlease = \"45s\"\n")
	submit(t, e, wire.Submit{Type: "plain"})
	submit(t, e, wire.Submit{Type: "changed"})
	request[wire.TypeReply](t, e, wire.APIConfigure, wire.Configure{Type: "changed", Settings: []byte(`{"capacity":3}`)})
	stopEngine(t, e)

	const defaults = "[defaults]\ncapacity = 7\n[retention]\ndead = \"1h\"\n[types.filed]\nlease = \"45s\"\n"
	for _, file := range []string{defaults, defaults + "[types.changed]\nlease = \"50s\"\n", defaults + "[types.changed]\nlease = \"55s\"\n"} {
		e = start(file)
		got := settings(e)
		if s := got["plain"]; s.Settings.Capacity != 7 || s.Settings.Retain.Dead != events.Millis(3_600_000) || s.Source != events.SourceDefault {
			t.Errorf("plain: %+v", s)
		}
		if s := got["filed"]; s.Settings.Capacity != 7 || s.Settings.Lease != events.Millis(45_000) || s.Source != events.SourceFile {
			t.Errorf("filed: %+v", s)
		}
		if s := got["changed"]; s.Settings.Capacity != 3 || !s.Settings.Retain.Dead.IsZero() || s.Source != events.SourceAPI {
			t.Errorf("changed: %+v", s)
		}
		stopEngine(t, e)
	}
}
