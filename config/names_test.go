package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// jsonNames are the names of a type's JSON, dotted, down to what has no fields.
func jsonNames(at string, t reflect.Type) (names []string) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if k := f.Type; k.Kind() == reflect.Struct && k != reflect.TypeFor[time.Time]() && k != reflect.TypeFor[events.Duration]() {
			names = append(names, jsonNames(at+name+".", k)...)
			continue
		}
		names = append(names, at+name)
	}
	return names
}

func same(t *testing.T, what string, file, api []string) {
	t.Helper()
	file, api = slices.Sorted(slices.Values(file)), slices.Sorted(slices.Values(api))
	for _, n := range file {
		if !slices.Contains(api, n) {
			t.Errorf("%s: engine.toml has %s, which the HTTP API has not", what, n)
		}
	}
	for _, n := range api {
		if !slices.Contains(file, n) {
			t.Errorf("%s: the HTTP API has %s, which engine.toml has not", what, n)
		}
	}
}

// A setting is called in JSON as in engine.toml, with its unit. That of the
// command line is held to it by a test of cmd/engine.
func TestOneSpellingPerSetting(t *testing.T) {
	api := slices.DeleteFunc(jsonNames("", reflect.TypeFor[events.TypeSettings]()), func(n string) bool {
		return n == "timeout_set" || n == "max_attempts_set" // no settings: the engine's notes of which were chosen
	})
	var names []string
	for _, s := range TypeSettings() {
		names = append(names, s.Name+unitOf(s.Kind))
	}
	same(t, "a type", names, api)
	same(t, "a priority", settingNames("", new(Patch).rows("", prioritySettings())), backoffInline(jsonNames("", reflect.TypeFor[events.PriorityOverride]())))
	same(t, "a failure code", settingNames("", codeFields(new(events.CodePolicy))), jsonNames("", reflect.TypeFor[events.CodePolicy]()))
	for key, of := range map[string]reflect.Type{"rates": reflect.TypeFor[events.RateLimit](), "queue_steps": reflect.TypeFor[events.QueueStep]()} {
		for _, name := range jsonNames("", of) {
			name = strings.TrimSuffix(name, "_ms")
			if _, err := Parse("f", []byte("[types.a]\n"+key+" = [{ "+name+" = {} }]")); err == nil || !strings.Contains(err.Error(), "an element 1 whose "+name) && !strings.Contains(err.Error(), "]."+name) {
				t.Errorf("%s: the HTTP API has %s, which engine.toml has not: %v", key, name, err)
			}
		}
	}
	ofSchedule := slices.DeleteFunc(jsonNames("", reflect.TypeFor[wire.Schedule]()), func(n string) bool { return n == "name" }) // its table's
	same(t, "a schedule", settingNames("", new(Schedule).fields()), ofSchedule)
}

// backoffInline has the fields of a backoff, which is a pointer there, as those of
// a table.
func backoffInline(names []string) (out []string) {
	for _, n := range names {
		if n != "backoff" {
			out = append(out, n)
			continue
		}
		out = append(out, jsonNames("backoff.", reflect.TypeFor[events.Backoff]())...)
	}
	return out
}

// No name of the file says a unit: its value does.
func TestNamesHaveNoUnits(t *testing.T) {
	c := Default()
	var walk func(at string, fields []field)
	walk = func(at string, fields []field) {
		for _, f := range fields {
			if strings.HasSuffix(f.key, "_ms") || strings.HasSuffix(f.key, "_bytes") {
				t.Errorf("%s%s has a unit in its name", at, f.key)
			}
			if f.table == nil {
				continue
			}
			key := map[string]string{"priority": "1"}[f.each]
			if key == "" {
				key = "submit" // a name as good as any: a type's, a role's
			}
			below, err := f.table(key)
			if err != nil {
				t.Fatalf("%s%s: %v", at, f.key, err)
			}
			walk(at+f.key+".", below)
		}
	}
	walk("", c.fields())
}

// Durations and sizes are texts with their units; a bare number, and the name of
// before with its unit in it, are refused with what to write.
func TestUnits(t *testing.T) {
	for value, want := range map[string]time.Duration{"90s": 90 * time.Second, "1m30s": 90 * time.Second, "7d": 7 * day, "1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour, "0.01y": 87*time.Hour + 36*time.Minute, "250ms": 250 * time.Millisecond} {
		got := mustParse(t, "[types.a]\ntimeout = \""+value+"\"").Settings("a")
		if got.Timeout.Milliseconds() != want.Milliseconds() {
			t.Errorf("%s is %d ms", value, got.Timeout.Milliseconds())
		}
		if back, err := ParseDuration(FormatDuration(want)); err != nil || back != want {
			t.Errorf("%s is rendered as %s, which is %s, %v", value, FormatDuration(want), back, err)
		}
	}
	for value, want := range map[string]int{"1024B": 1024, "1KiB": 1024, "1MiB": 1 << 20} {
		if got := mustParse(t, "[types.a]\nmax_params = \""+value+"\"").Settings("a"); got.MaxParams != want {
			t.Errorf("%s is %d bytes", value, got.MaxParams)
		}
	}
	if d, err := ParseDuration("5y1h"); d != 5*365*day+time.Hour || err != nil {
		t.Errorf("5y1h is %s, %v", d, err)
	}
	const duration, size = `it must be a duration such as "30s", "1h30m" or "7d"`, `it must be a size such as "512B", "256KiB", "8MiB" or "2GiB"`
	for file, want := range map[string]string{
		"[types.a]\ntimeout_ms = \"90s\"":                  `e.toml:2: types.a.timeout_ms is called timeout here: write timeout = "90s"`,
		"[types.a]\ntimeout_ms = 90_000":                   `e.toml:2: types.a.timeout_ms is called timeout here: write timeout = "1m30s"`,
		"[types.a]\ntimeout_ms = true":                     `e.toml:2: types.a.timeout_ms is called timeout here`,
		"[types.a.circuit]\ncooldown_ms = \"90s\"":         `is called cooldown here`,
		"[types.a.codes.x]\ntimeout_max_ms = \"90s\"":      `e.toml:2: types.a.codes.x.timeout_max_ms is called timeout_max here`,
		"[schedules.a]\ntype=\"a\"\nevery_ms = \"90s\"":    `e.toml:3: schedules.a.every_ms is called every here`,
		"[defaults]\nmax_params_bytes = 2048":              `max_params_bytes is called max_params here: write max_params = "2KiB"`,
		"[limits]\nlog_max_bytes = \"1GiB\"":               `log_max_bytes is called log_max_size here: write log_max_size = "1GiB"`,
		"[quotas.submit]\npayload_bytes = \"64KiB\"":       `payload_bytes is called payload here`,
		"[types.a]\nrates=[{n = 1, interval_ms = \"1s\"}]": `e.toml:2: types.a.rates has interval_ms in its element 1, which is called interval here: write interval = "1s"`,
		"[types.a.priority.9]\ntimeout = \"1s\"":           "types.a.priority is no setting: did you mean per_priority?",
		"[types.a]\ntimeout = 30":                          "e.toml:2: types.a.timeout is 30: " + duration,
		"[types.a]\ntimeout = \"30\"":                      `types.a.timeout is "30": ` + duration,
		"[types.a]\ntimeout = \"0\"":                       duration,
		"[types.a]\ntimeout = \"1h2d\"":                    duration,
		"[types.a]\ntimeout = \"1d-1h\"":                   duration,
		"[types.a]\ntimeout = \"106752d\"":                 duration,
		"[server]\nmax_clock_jump = 5":                     duration,
		"[limits]\nmax_store = 1073741824":                 "e.toml:2: limits.max_store is 1073741824: " + size,
		"[limits]\nmax_store = \"1073741824\"":             size,
		"[limits]\nmax_store = \"100GB\"":                  size,
		"[quotas.submit]\nbytes_per_second = 5":            size,
	} {
		if _, err := Parse("e.toml", []byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngives %v\nwants %s", file, err, want)
		}
	}
}

// Request spells for the API what Written spells for people.
func TestRequestAndWritten(t *testing.T) {
	settings := map[string]any{
		"lease": "30s", "max_params": "2KiB", "capacity": int64(5), "backoff": map[string]any{"max": "1m"}, "retain": map[string]any{"dead": "7d"},
		"rates":        []any{map[string]any{"per": "type", "at": "submit", "n": int64(1), "interval": "1s"}},
		"per_priority": map[string]any{"9": map[string]any{"timeout": "2m", "backoff": map[string]any{"initial": "1s"}}},
		"codes":        map[string]any{"busy": map[string]any{"timeout_max": "1h", "no_retry": true}},
	}
	body, err := Request(settings)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"backoff":{"max_ms":60000},"capacity":5,"codes":{"busy":{"no_retry":true,"timeout_max_ms":3600000}},"lease_ms":30000,"max_params_bytes":2048,` +
		`"per_priority":{"9":{"backoff":{"initial_ms":1000},"timeout_ms":120000}},"rates":[{"per":"type","at":"submit","n":1,"interval_ms":1000}],"retain":{"dead_ms":604800000}}`
	if string(data) != want {
		t.Errorf("the request is %s\nwants %s", data, want)
	}
	var api any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&api); err != nil {
		t.Fatal(err)
	}
	back, _ := json.Marshal(Written(api))
	if given, _ := json.Marshal(settings); string(back) != string(given) {
		t.Errorf("%s is written as %s", given, back)
	}
	for _, of := range []struct {
		settings map[string]any
		want     string
	}{
		{map[string]any{"lease": "1ms"}, "lease is 1ms: it must be 1s to 1h"},
		{map[string]any{"lease_ms": "1s"}, `lease_ms is called lease here: write lease = "1s"`},
		{map[string]any{"retain": map[string]any{"dead": int64(5)}}, "retain.dead is 5: it must be a duration"},
		{map[string]any{"codes": map[string]any{"x": map[string]any{"max_attempts": int64(0)}}}, "codes.x.max_attempts is 0"},
		{map[string]any{"per_priority": map[string]any{"10": map[string]any{}}}, "per_priority.10"},
		{map[string]any{"backoff": "x"}, `backoff is "x": it must be a table`},
	} {
		if _, err := Request(of.settings); err == nil || !strings.Contains(err.Error(), of.want) {
			t.Errorf("%v: %v, wants %s", of.settings, err, of.want)
		}
	}
	if body, err := Request(map[string]any{"pool": "", "rates": "", "max_queued": "", "codes": ""}); err != nil || fmt.Sprint(body) != "map[codes:<nil> max_queued:0 pool: rates:[]]" {
		t.Errorf("unset: %v, %v", body, err)
	}
}

func TestSpell(t *testing.T) {
	for text, want := range map[string]string{
		"lease_ms is 5: it must be 1000 to 3600000":                                            "lease is 5ms: it must be 1s to 1h",
		"a: backoff.max_ms is 30000: it must be initial_ms (60000) to 86400000\ncapacity is 0": "a: backoff.max is 30s: it must be initial (1m) to 1d\ncapacity is 0",
		"priority 9: timeout_ms is 0: it must be 1 to 2592000000":                              "priority 9: timeout is 0s: it must be 1ms to 30d",
		"max_params_bytes is 1: it must be 2 to 1048576":                                       "max_params is 1B: it must be 2B to 1MiB",
		"capacity is 0: it must be 1 to 5":                                                     "capacity is 0: it must be 1 to 5",
	} {
		if got := Spell(text); got != want {
			t.Errorf("%s\nis spelled %s\nwants      %s", text, got, want)
		}
	}
}

// settingNames lists the settings of a table as JSON has them, dotted, and its tables
// with names as one.
func settingNames(at string, fields []field) (names []string) {
	for _, f := range fields {
		switch {
		case f.key == "":
		case f.below() != nil:
			names = append(names, settingNames(at+f.key+".", f.below())...)
		default:
			names = append(names, at+f.key+unitOf(f.kind))
		}
	}
	return names
}
