package conf

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// What the defaults leave to say is only what has none.
func TestDefaultsAreValid(t *testing.T) {
	c := Config{}.WithDefaults()
	if err := c.Validate(); err == nil || err.Error() != "dispatcher: Log, Store and Conn must be set" {
		t.Fatal(err)
	}
	if c.SyncWithin != DefaultSyncWithin || (Config{Alone: true}).WithDefaults().SyncWithin != AloneSyncWithin {
		t.Errorf("an event is on disk within %s", c.SyncWithin)
	}
	c.Logger.Info("goes nowhere")
	set := Config{MaxRunning: 1, Owner: "me", Replicas: 3, SyncWithin: time.Second, Alone: true, MaxPayload: 9, CutEvents: 7, FormatLevel: 1, MaxClockJump: -1}
	if d := set.WithDefaults(); d.MaxRunning != 1 || d.Owner != "me" || d.Replicas != 3 || d.SyncWithin != time.Second || d.MaxPayload != 9 || d.CutEvents != 7 || d.FormatLevel != 1 || d.MaxClockJump != -1 {
		t.Errorf("what is set was changed: %+v", d)
	}
}

// Each mistake is told, whatever else is wrong.
func TestValidate(t *testing.T) {
	all := Config{}.WithDefaults()
	said := map[string]bool{}
	for want, edit := range map[string]func(*Config){
		"max_running":      func(c *Config) { c.MaxRunning = -1 },
		"Heartbeat":        func(c *Config) { c.Sweep = -1 },
		"ProbeTimeout":     func(c *Config) { c.ProbeTimeout = c.ProbeInterval },
		"CutEvents":        func(c *Config) { c.CutEvents = -1 },
		"default settings": func(c *Config) { c.Defaults.Capacity = -1 },
		"limits":           func(c *Config) { c.Limits.Pools = map[string]events.Pool{"p": {Slots: -1}} },
		"No Type": func(c *Config) {
			c.FileTypes = map[events.Type]func(events.TypeSettings) events.TypeSettings{"No Type": keep}
		},
		"settings of type a": func(c *Config) {
			c.FileTypes = map[events.Type]func(events.TypeSettings) events.TypeSettings{"a": func(s events.TypeSettings) events.TypeSettings { s.Capacity = -1; return s }}
		},
		"the namespace default": func(c *Config) { c.FileNamespaces = []events.NamespaceInfo{{Name: "default"}} },
		"schedule":              func(c *Config) { c.FileSchedules = []events.Schedule{{Name: "bad schedule"}} },
		"dedup":                 func(c *Config) { c.Dedup.Fallback = "nothing" },
	} {
		c := Config{}.WithDefaults()
		edit(&c)
		if err := c.Validate(); err == nil || strings.Count(err.Error(), "\n") == 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		said[want] = true
		if want != "No Type" && want != "settings of type a" {
			edit(&all)
		}
	}
	err := all.Validate()
	for want := range said {
		if want != "No Type" && want != "settings of type a" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("with all mistakes at once, %s is not told: %v", want, err)
		}
	}
	many := Config{FileTypes: map[events.Type]func(events.TypeSettings) events.TypeSettings{}}.WithDefaults()
	for i := range events.MaxTypes + 1 {
		many.FileTypes[events.Type("t"+events.Seq(i).String())] = keep
	}
	if err := many.Validate(); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("too many types: %v", err)
	}
	namespaces := Config{FileNamespaces: make([]events.NamespaceInfo, events.MaxNamespaces+1)}.WithDefaults()
	if err := namespaces.Validate(); err == nil || !strings.Contains(err.Error(), "1001 namespaces: at most 1000") {
		t.Errorf("too many namespaces: %v", err)
	}
	acme := Config{Names: wire.Default.Namespace("acme"), FileNamespaces: []events.NamespaceInfo{{Name: "beta"}}}.WithDefaults()
	if err := acme.Validate(); err == nil || !strings.Contains(err.Error(), "work-acme has no list of namespaces") {
		t.Errorf("namespaces in another than the default: %v", err)
	}
}

func keep(s events.TypeSettings) events.TypeSettings { return s }

// A host's score is for the types that it names, all if none, and is asked for once.
func TestRate(t *testing.T) {
	asked := 0
	c := Config{Score: func(s core.Submit) time.Duration { asked++; return time.Duration(len(s.Type)) }}
	none := Config{}
	for _, x := range []struct {
		of    *Config
		types []events.Type
		want  bool
	}{{&none, nil, false}, {&c, nil, true}, {&c, []events.Type{"other"}, false}, {&c, []events.Type{"other", "email"}, true}} {
		x.of.ScoreTypes = x.types
		s := core.Submit{Type: "email"}
		x.of.Rate(&s)
		if got := x.of.Scores("email"); got != x.want || (s.Score != nil) != x.want || x.want && *s.Score != 5 {
			t.Errorf("for %v: %v, %v", x.types, got, s.Score)
		}
		was := asked
		if x.of.Rate(&s); x.want && asked != was {
			t.Error("a score is asked for twice")
		}
	}
}

// The file's settings are recorded where they differ from the log's; what people have set
// through the API stays, but for what the file says of the type itself.
func TestFromFile(t *testing.T) {
	state, err := core.NewState(core.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{}.WithDefaults()
	state.SetDefaults(c.Defaults)
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	do := func(cmds ...core.Command) {
		t.Helper()
		for _, cmd := range cmds {
			d, err := core.Decide(state, cmd, at)
			if err != nil {
				t.Fatal(err)
			}
			for _, ev := range d.Events {
				ev.Seq = state.Meta().Applied + 1
				if err := state.Apply(ev); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	byAPI := c.Defaults
	byAPI.Capacity = 7
	do(core.Submit{Type: "seen", NewID: events.ID{1}}, core.Configure{Type: "api", Source: events.SourceAPI, Settings: byAPI}, core.Configure{Type: "both", Source: events.SourceAPI, Settings: byAPI})
	if cmds := c.FromFile(state); len(cmds) != 0 {
		t.Fatalf("a file without settings: %+v", cmds)
	}
	c.FileDefaults = func(s events.TypeSettings) events.TypeSettings { s.MaxAttempts = 9; return s }
	capacity := func(n int) func(events.TypeSettings) events.TypeSettings {
		return func(s events.TypeSettings) events.TypeSettings { s.Capacity = n; return s }
	}
	c.FileTypes = map[events.Type]func(events.TypeSettings) events.TypeSettings{"new": capacity(3), "both": capacity(4)}
	type set struct {
		source   string
		capacity int
		attempts events.Attempt
	}
	want := map[events.Type]set{
		"seen": {"", c.Defaults.Capacity, 9}, "new": {events.SourceFile, 3, 9}, "both": {events.SourceAPI, 4, byAPI.MaxAttempts},
	}
	cmds, got := c.FromFile(state), map[events.Type]set{}
	for _, cmd := range cmds {
		f := cmd.(core.Configure)
		got[f.Type] = set{string(f.Source), f.Settings.Capacity, f.Settings.MaxAttempts}
	}
	seen := want["seen"]
	info, _ := state.Type("seen")
	seen.source = string(info.Source)
	want["seen"] = seen
	if !maps.Equal(got, want) || len(cmds) != len(want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
	if !slices.IsSortedFunc(cmds, func(a, b core.Command) int {
		return strings.Compare(string(a.(core.Configure).Type), string(b.(core.Configure).Type))
	}) {
		t.Errorf("not in order: %+v", cmds)
	}
	do(cmds...)
	if again := c.FromFile(state); len(again) != 0 {
		t.Errorf("what is recorded is recorded again: %+v", again)
	}
}
