package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
)

func TestNamespacesOfTheExample(t *testing.T) {
	c, err := Load("../engine.example.toml")
	if err != nil {
		t.Fatal(err)
	}
	want := []events.NamespaceInfo{{Name: "acme", Node: "node-2", Source: events.SourceFile, Limits: events.NamespaceLimits{
		MaxQueued: 100_000, MaxLogBytes: 10 << 30, MaxDocumentBytes: 1 << 30, RequestsPerSecond: 500,
	}}}
	if got := c.FileNamespaces(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	c, err = Parse("engine.toml", []byte("[namespaces.b]\n[namespaces.a]\npaused = true\n"))
	if list := c.FileNamespaces(); err != nil || len(list) != 2 || list[0].Name != "a" || !list[0].Paused || list[1].Name != "b" || list[1].Paused {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestBadNamespaces(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"name":        {"[namespaces.\"A b\"]\n", "engine.toml:1: namespaces.A b \"A b\" is no namespace"},
		"default":     {"[namespaces.default]\nmax_queued = 5", "engine.toml:1: namespaces.default the namespace default holds the list of the others"},
		"unknown key": {"[namespaces.a]\nwait = 5", "engine.toml:2: namespaces.a.wait is no setting"},
		"queued":      {"[namespaces.a]\nmax_queued = -1", "engine.toml:2: namespaces.a.max_queued is -1"},
		"log":         {"[namespaces.a]\nmax_log_size = \"1KiB\"", "engine.toml:2: namespaces.a.max_log_size is 1KiB: it must be"},
		"documents":   {"[namespaces.a]\nmax_document_size = 5", "engine.toml:2: namespaces.a.max_document_size"},
		"requests":    {"[namespaces.a]\nrequests_per_second = 2000000", "engine.toml:2: namespaces.a.requests_per_second is 2000000"},
		"node":        {"[namespaces.a]\nnode = \"No Node\"", "engine.toml:2: namespaces.a.node is \"No Node\""},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("engine.toml", []byte(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
