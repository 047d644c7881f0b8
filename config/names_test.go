package config

import (
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
		if k := f.Type; k.Kind() == reflect.Struct && k != reflect.TypeFor[time.Time]() {
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

// A setting has one spelling in engine.toml and in the HTTP API. That of the
// command line is held to it by a test of cmd/engine.
func TestOneSpellingPerSetting(t *testing.T) {
	api := slices.DeleteFunc(jsonNames("", reflect.TypeFor[events.TypeSettings]()), func(n string) bool {
		return n == "timeout_set" || n == "max_attempts_set" // no settings: the engine's notes of which were chosen
	})
	var names []string
	for _, s := range TypeSettings() {
		names = append(names, s.Name)
	}
	same(t, "a type", names, api)
	same(t, "a priority", settingNames("", new(Patch).rows("", prioritySettings())), backoffInline(jsonNames("", reflect.TypeFor[events.PriorityOverride]())))
	same(t, "a failure code", settingNames("", codeFields(new(events.CodePolicy))), jsonNames("", reflect.TypeFor[events.CodePolicy]()))
	for key, of := range map[string]reflect.Type{"rates": reflect.TypeFor[events.RateLimit](), "queue_steps": reflect.TypeFor[events.QueueStep]()} {
		for _, name := range jsonNames("", of) {
			if _, err := Parse("f", []byte("[types.a]\n"+key+" = [{ "+name+" = {} }]")); err == nil || strings.Contains(err.Error(), "is no setting") {
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

// The names of durations end in _ms and those of sizes in _bytes, all through
// the file, whatever unit their values are written in.
func TestNamesSayTheirUnits(t *testing.T) {
	c := Default()
	var walk func(at string, fields []field)
	walk = func(at string, fields []field) {
		for _, f := range fields {
			switch {
			case f.table != nil:
				key := map[string]string{"priority": "1"}[f.each]
				if key == "" {
					key = "submit" // a name as good as any: a type's, a role's
				}
				below, err := f.table(key)
				if err != nil {
					t.Fatalf("%s%s: %v", at, f.key, err)
				}
				walk(at+f.key+".", below)
			case f.kind == "duration" && !strings.HasSuffix(f.key, "_ms"):
				t.Errorf("%s%s is a duration: call it %s_ms", at, f.key, f.key)
			case f.kind == "size" && !strings.HasSuffix(f.key, "_bytes") && !strings.HasSuffix(f.key, "bytes_per_second"):
				t.Errorf("%s%s is a size: call it %s_bytes", at, f.key, f.key)
			}
		}
	}
	walk("", c.fields())
}

// A duration is a string with its unit, or a number of milliseconds; who writes
// the name without the unit is told.
func TestDurations(t *testing.T) {
	for _, value := range []string{`"90s"`, `"1m30s"`, "90000", "90_000"} {
		if got := mustParse(t, "[types.a]\ntimeout_ms = "+value).Settings("a"); got.TimeoutMS != 90_000 {
			t.Errorf("%s is %d ms", value, got.TimeoutMS)
		}
	}
	for file, want := range map[string]string{
		"[types.a]\ntimeout = \"90s\"":                  "types.a.timeout is no setting: did you mean timeout_ms?",
		"[types.a.circuit]\ncooldown = \"90s\"":         "did you mean cooldown_ms?",
		"[types.a.priority.9]\ntimeout_ms = 1":          "types.a.priority is no setting: did you mean per_priority?",
		"[schedules.a]\ntype=\"a\"\nevery = \"90s\"":    "schedules.a.every is no setting: did you mean every_ms?",
		"[defaults]\nmax_params = 1":                    "did you mean max_params_bytes?",
		"[types.a]\nrates=[{n = 1, interval = \"1s\"}]": "did you mean interval_ms?",
	} {
		if _, err := Parse("f", []byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngives %v\nwants %s", file, err, want)
		}
	}
}

// settingNames lists the settings of a table, dotted, and its tables with names as
// one.
func settingNames(at string, fields []field) (names []string) {
	for _, f := range fields {
		switch {
		case f.key == "":
		case f.below() != nil:
			names = append(names, settingNames(at+f.key+".", f.below())...)
		default:
			names = append(names, at+f.key)
		}
	}
	return names
}
