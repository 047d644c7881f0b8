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
	if w := c.WorkerCircuitSettings(); w.Consecutive != 5 || w.Probes != 1 || w.CooldownMS != 30_000 {
		t.Errorf("the circuit of workers is %+v", w)
	}
	got := c.Settings("email")
	codes := map[string]events.CodePolicy{
		"greylisted": {MaxAttempts: 20, DelayFactor: 4}, "timeout": {TimeoutFactor: 2, TimeoutMaxMS: 7_200_000}, "logic": {},
	}
	if got.PoisonAfter != 4 || !reflect.DeepEqual(got.Codes, codes) || got.Circuit != (events.CircuitSettings{Consecutive: 7, CooldownMS: 5000, CountNoRetry: true}) {
		t.Errorf("the settings are %+v", got)
	}
	if len(c.Settings("other").Codes) != 1 {
		t.Error("a type's codes are those of another")
	}
	wanted := got
	wanted.Circuit.Consecutive = 8
	wanted.Codes = map[string]events.CodePolicy{"greylisted": {}, "timeout": codes["timeout"], "logic": {NoRetry: true}}
	owned := c.Types["email"].Patch.Conflicts(wanted)
	if want := []string{"circuit.consecutive", "circuit.cooldown", "circuit.count_no_retry", "codes.logic"}; !slices.Equal(owned, want) {
		t.Errorf("the file owns %v", owned)
	}
}

func TestProtectionIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		"[worker_circuit]\nconsecutive = 1":                         "2 to 100",
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
