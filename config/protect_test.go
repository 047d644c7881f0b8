package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
)

func TestProtection(t *testing.T) {
	c, err := Parse("engine.toml", []byte(`
[worker_circuit]
consecutive = 5
[defaults]
poison_after = 4
[defaults.codes.greylisted]
max_attempts = 20
delay_factor = 4
[types.email.circuit]
consecutive = 7
cooldown = "5s"
count_no_retry = true
[types.email.codes.timeout]
timeout_factor = 2
timeout_max = "2h"
[types.email.codes.logic]
`))
	if err != nil {
		t.Fatal(err)
	}
	if w := c.WorkerCircuitSettings(); w.Consecutive != 5 || w.Probes != 1 || w.Cooldown != events.Millis(30_000) {
		t.Errorf("the circuit of workers is %+v", w)
	}
	got := c.Settings("email")
	codes := map[string]events.CodePolicy{
		"greylisted": {MaxAttempts: 20, DelayFactor: 4}, "timeout": {TimeoutFactor: 2, TimeoutMax: events.Millis(7_200_000)}, "logic": {},
	}
	if got.PoisonAfter != 4 || !reflect.DeepEqual(got.Codes, codes) || got.Circuit != (events.CircuitSettings{Consecutive: 7, Cooldown: events.Millis(5000), CountNoRetry: true}) {
		t.Errorf("the settings are %+v", got)
	}
	if len(c.Settings("other").Codes) != 1 {
		t.Error("a type's codes are those of another")
	}
	wanted := got
	wanted.Circuit.Consecutive = 8
	wanted.Codes = map[string]events.CodePolicy{"greylisted": {}, "timeout": codes["timeout"], "logic": {NoRetry: true}}
	owned := c.Types["email"].Patch.Conflicts(wanted)
	if want := []string{"circuit.consecutive", "codes.logic"}; !slices.Equal(owned, want) {
		t.Errorf("the file owns %v", owned)
	}
}

func TestProtectionIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		"[worker_circuit]\nconsecutive = 1":                         "f:2: worker_circuit.consecutive is 1: it must be 2 to 100, or 0 for no circuit",
		"[worker_circuit]\nratio = 0.5":                             "is no setting",
		"[defaults]\npoison_after = 0":                              "1 to 1000",
		"[types.a.codes.x]\ndelay_factor = 1000":                    "0.01 to 100",
		"[types.a.codes.x]\nretries = 3":                            "is no setting",
		"[types.a.codes.\"\"]\nmax_attempts = 3":                    "no failure code",
		"[types.a.circuit]\nratio = 2":                              "0 to 1",
		"[types.a.circuit]\ncooldown = \"2m\"\nmax_cooldown=\"1m\"": "max_cooldown",
		"[types.a.circuit]\ncount_no_retry = 1":                     "true or false",
	} {
		if _, err := Parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// What protects a type by default is turned off by 0, for all types or for one;
// what the file says of something else leaves it on.
func TestProtectionIsOnByDefault(t *testing.T) {
	for _, c := range []struct {
		file        string
		consecutive int
		queued      int
	}{
		{"", events.DefaultConsecutive, events.DefaultMaxQueued},
		{"[types.a]\ncapacity = 3", events.DefaultConsecutive, events.DefaultMaxQueued},
		{"[defaults]\nmax_queued = 0\ncircuit = { consecutive = 0 }", 0, 0},
		{"[types.a]\nmax_queued = 0\n[types.a.circuit]\nconsecutive = 0", 0, 0},
		{"[types.a]\nmax_queued = 7\n[types.a.circuit]\nconsecutive = 5", 5, 7},
		{"[defaults]\nmax_queued = 0\n[types.a.circuit]\nconsecutive = 5", 5, 0},
	} {
		got := mustParse(t, c.file).Settings("a")
		if got.Circuit.Consecutive != c.consecutive || got.Circuit.Ratio != 0 || got.MaxQueued != c.queued || got.Circuit.On() != (c.consecutive > 0) {
			t.Errorf("%q gives the circuit %+v and max_queued %d", c.file, got.Circuit, got.MaxQueued)
		}
	}
	// The log's own defaults stay: what was recorded without protection has none.
	if old := events.DefaultTypeSettings(); old.Circuit.On() || old.MaxQueued != 0 {
		t.Errorf("%+v", old)
	}
}
