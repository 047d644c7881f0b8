package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

func TestAllowedTypes(t *testing.T) {
	c, err := Parse("engine.toml", []byte("[limits]\ntypes = [\"email\", \"invoice\"]\n[types.resize]\ncapacity = 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if l := c.EngineLimits(); !reflect.DeepEqual(l.Types, map[events.Type]bool{"email": true, "invoice": true, "resize": true}) {
		t.Fatalf("%v", l.Types)
	}
	if c, err = Parse("engine.toml", []byte("[types.resize]\ncapacity = 2\n")); err != nil || c.EngineLimits().Types != nil {
		t.Fatalf("%v %v", c.EngineLimits().Types, err)
	}
	if _, err = Parse("engine.toml", []byte("[limits]\ntypes = [\"E Mail\"]\n")); err == nil || !strings.Contains(err.Error(), "limits.types") {
		t.Fatalf("%v", err)
	}
}

func TestLimitsOfTheExample(t *testing.T) {
	c, err := Load("../engine.example.toml")
	if err != nil {
		t.Fatal(err)
	}
	got := c.Settings("summarise")
	want := events.ProtectedTypeSettings()
	want.Pool, want.PoolWeight, want.MaxQueued, want.GroupBy, want.GroupCapacity = "llm", 2, 10_000, "tenant", 2
	want.AssignBy = "tenant"
	want.QueueSteps = []events.QueueStep{{Over: 5000, MinPriority: 5}}
	want.Rates = []events.RateLimit{
		{Per: "tenant", At: "submit", N: 100, Interval: events.Millis(60_000), Burst: 200},
		{Per: "tenant", At: "submit", N: 1000, Interval: events.Millis(3_600_000)},
		{Per: "type", At: "dispatch", N: 10, Interval: events.Millis(1000)},
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v", got)
	}
	if l := c.EngineLimits(); l.Pools["llm"].Slots != 3 {
		t.Fatalf("%+v", l)
	}
	patch := c.Types["summarise"].Patch
	if names := patch.Named(); strings.Join(names, " ") != "assign_by max_queued queue_steps rates pool pool_weight group_by group_capacity" {
		t.Fatalf("%q", names)
	}
	if got := patch.Conflicts(want); len(got) > 0 {
		t.Fatalf("it conflicts with itself: %q", got)
	}
	want.Rates, want.Pool = nil, ""
	if got := patch.Conflicts(want); strings.Join(got, " ") != "rates pool" {
		t.Fatalf("%q", got)
	}
}

func TestEngineLimits(t *testing.T) {
	c, err := Parse("engine.toml", []byte(`
[limits]
max_queued = 100
queue_steps = [{ over = 10, min_priority = 5 }]
[[limits.queue_steps]]
`))
	if err == nil {
		t.Fatalf("%+v", c) // TOML has a list once
	}
	c, err = Parse("engine.toml", []byte("[limits]\nmax_queued = 100\n[[limits.queue_steps]]\nover = 10\nmin_priority = 5\n[[limits.queue_steps]]\nover = 20\nsources = [\"a\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := events.Limits{MaxQueued: 100, QueueSteps: []events.QueueStep{{Over: 10, MinPriority: 5}, {Over: 20, Sources: []string{"a"}}}, Pools: map[string]events.Pool{}, WorkerCircuit: c.WorkerCircuitSettings(), StartTimeout: 5 * time.Second}
	if got := c.EngineLimits(); !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v", got)
	}
}

func TestBadLimits(t *testing.T) {
	for file, want := range map[string]string{
		"[types.a]\nmax_queued = -1":                                 "engine.toml:2: types.a.max_queued is -1: it must be 0 to",
		"[types.a]\npool = \"llm\"":                                  "engine.toml:2: types.a.pool is \"llm\", and there is no such pool: add [pools.llm]",
		"[defaults]\npool = \"llm\"":                                 "engine.toml:2: defaults.pool is \"llm\"",
		"[pools.llm]\nslots = 0":                                     "engine.toml:2: pools.llm.slots is 0: it must be 1 to",
		"[types.a]\ngroup_by = \"me\"":                               "engine.toml:2: types.a.group_by is \"me\"",
		"[types.a]\nassign_by = \"me\"":                              "engine.toml:2: types.a.assign_by is \"me\": it must be tenant or label:NAME, or most_free or round_robin",
		"[types.a]\nqueue_steps = [{ over = 1 }]":                    "engine.toml:2: types.a.queue_steps [0] says nothing",
		"[types.a]\nqueue_steps = [{ over = 1, min_priority = 12 }]": "engine.toml:2: types.a.queue_steps has an element 1 whose min_priority is 12",
		"[types.a]\nrates = [1]":                                     "engine.toml:2: types.a.rates has 1 as its element 1",
		"[types.a]\nrates = [{ nn = 1 }]":                            "engine.toml:2: types.a.rates has nn in its element 1, which is no setting: did you mean n?",
		"[types.a]\nrates = [{ per = \"type\", at = \"submit\", n = 0, interval = \"1s\" }]":      "engine.toml:2: types.a.rates has an element 1 whose n is 0",
		"[types.a]\nrates = [{ per = \"type\", at = \"submit\", n = 1, interval = true }]":        "engine.toml:2: types.a.rates has an element 1 whose interval is true: it must be a duration",
		"[types.a]\nrates = [{ per = \"label:k\", at = \"dispatch\", n = 1, interval = \"1s\" }]": "at dispatch a limit is per type, or per the type's group_by, which is tenant",
		"[limits]\nmax_queued = 5\nqueue_steps = [{ over = 5, min_priority = 1 }]":                "engine.toml:3: limits.queue_steps [0].over is 5, max_queued 5: the step would never count",
		"[types.a]\ngroup_by = \"none\"\ngroup_capacity = 3":                                      "group_capacity is 3, but group_by is none",
	} {
		_, err := Parse("engine.toml", []byte(file))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngives %v\nwant  %s", file, err, want)
		}
	}
}
