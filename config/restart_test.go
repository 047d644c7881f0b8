package config

import (
	"slices"
	"testing"
)

// What a reload does not put into force is named by its key.
func TestNeedsRestart(t *testing.T) {
	parse := func(text string) Config {
		t.Helper()
		c, err := Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for name, tc := range map[string]struct {
		old, changed string
		want         []string
	}{
		"the same":         {"", "[server]\nprefix = \"work\"\n[limits]\nmax_running = 10000", nil},
		"what is reloaded": {"", "[http]\ntokens_file = \"t\"\nhosts = [\"a\"]\n[[nats.users]]\nname = \"a\"\npassword = \"0123456789abcdef\"\nroles = [\"read\"]", nil},
		"settings":         {"[server]\nhttp = \"127.0.0.1:1\"", "[server]\nhttp = \"127.0.0.1:2\"\n[retention]\ncompleted = \"1h\"\n[nats]\nallow_open = true", []string{"nats.allow_open", "retention.completed", "server.http"}},
		"of types":         {"[types.a]\ncapacity = 1\n[types.b]\ncapacity = 1\n[types.c]\ncapacity = 1", "[types.a]\ncapacity = 1\n[types.b]\ncapacity = 2\n[types.d]\nexec = [\"true\"]", []string{"types.b", "types.c", "types.d"}},
		"nested":           {"", "[defaults.backoff]\nmax = \"9s\"", []string{"defaults.backoff.max"}},
		"of priorities":    {"", "[defaults.per_priority.9]\ntimeout = \"9s\"", []string{"defaults.per_priority.9.timeout"}},
		"TLS switched on":  {"", "[http]\ntls_cert = \"c\"\ntls_key = \"k\"\n[nats]\ntls_cert = \"c\"\ntls_key = \"k\"", []string{"http.tls_cert", "nats.tls_cert"}},
		"TLS renamed":      {"[http]\ntls_cert = \"a\"\ntls_key = \"a\"", "[http]\ntls_cert = \"c\"\ntls_key = \"k\"", nil},
	} {
		if got := NeedsRestart(parse(tc.old), parse(tc.changed)); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// Every setting of the file's fixed tables can be compared.
func TestEverySettingIsCompared(t *testing.T) {
	var walk func(path string, fields []field)
	walk = func(path string, fields []field) {
		for _, f := range fields {
			switch {
			case f.get != nil || f.each != "":
			case f.table != nil:
				below, err := f.table("")
				if err != nil {
					t.Fatal(err)
				}
				walk(path+"."+f.key, below)
			default:
				t.Errorf("%s.%s has no get", path, f.key)
			}
		}
	}
	c := Default()
	for _, f := range c.fields() {
		if f.each == "" {
			below, _ := f.table("")
			walk(f.key, below)
		}
	}
	for key := range reloaded {
		if !slices.ContainsFunc(append(prefixed("http", c.HTTP.fields()), prefixed("nats", c.NATS.fields())...), func(s string) bool { return s == key }) {
			t.Errorf("%s is no setting", key)
		}
	}
}

func prefixed(table string, fields []field) (keys []string) {
	for _, f := range fields {
		keys = append(keys, table+"."+f.key)
	}
	return keys
}
