package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/streamwright/streamwright"

// layers are the packages from the bottom up, "." being the root client. A
// package may import packages of lower layers, and none of its own, but for
// what stands below it in its own folder.
var layers = [][]string{
	{"docs", "events", "internal/cron", "internal/directget", "internal/flock", "internal/jsongen", "internal/lograte", "internal/leaks", "internal/loopback", "internal/need", "internal/nudge", "internal/sleep", "internal/turns"},
	{"events/policy", "internal/natscluster", "internal/repeat"},
	{"events/core", "wire", "schemas", "internal/docs/site"},
	{"wire/command", "access", "tracing"},
	{"connect", "access/quota", "internal/standing"},
	{"blobs"},
	{"config", "eventlog", "kvstate", "internal/schemas", "access/httpauth", "tracing/itemspans"},
	{"eventlog/logtest", "eventlog/pages", "projector", "workers", "internal/doors", "internal/faultproxy", "internal/logins", "internal/telemetry"},
	{"backup", "dispatcher", "workers/process", "workers/workertest", "."},
	{"api", "internal/cli", "internal/mcpserver", "internal/measure"},
	{"embedded"},
	{"internal/acceptance", "internal/bench", "internal/chaos", "internal/demo", "internal/deploy", "internal/docs", "internal/modules", "internal/nodeclient", "internal/playground", "internal/pythonclient", "internal/secured", "streamwrighttest"},
	{"cmd", "examples"},
}

// clients are what users build into their own programs, with what is below
// them in their folders, but for what clients must never depend on.
var clients = []string{".", "workers", "blobs", "wire"}

// notForClients are what a client must never depend on, even indirectly.
var notForClients = []string{
	module + "/dispatcher", module + "/projector", module + "/embedded", module + "/api", module + "/config",
	module + "/events/core", module + "/wire/command",
	"github.com/cockroachdb/pebble", "github.com/nats-io/nats-server",
}

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
	Error      *struct{ Err string }
}

// name is the path within the module.
func (p pkg) name() string { return within(p.ImportPath) }

// within is a path within the module, empty for one outside.
func within(path string) string {
	if path == module {
		return "."
	}
	rest, ok := strings.CutPrefix(path, module+"/")
	if !ok {
		return ""
	}
	return rest
}

func root(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("go list -m: %v: the architecture is read with the go command, which must be on the PATH", err)
	}
	return strings.TrimSpace(string(out))
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-pgo=off", "-json=ImportPath,Imports,Deps,Error", "./...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list ./...: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// layerOf is the layer of a package (the folder that is listed, or one below
// it), -1 for none.
func layerOf(name string) int {
	for dir := name; ; dir = filepath.ToSlash(filepath.Dir(dir)) {
		for i, l := range layers {
			if slices.Contains(l, dir) && (dir != "." || name == ".") {
				return i
			}
		}
		if dir == "." {
			return -1
		}
	}
}

// allowed reports whether package from may import package to, both of the
// module.
func allowed(from, to string) bool {
	a, b := layerOf(from), layerOf(to)
	if a < 0 || b < 0 {
		return false
	}
	top, _, _ := strings.Cut(from, "/")
	topTo, _, _ := strings.Cut(to, "/")
	return b < a || a == b && top == topTo && strings.HasPrefix(to, top+"/")
}

func TestImportsRunOneWay(t *testing.T) {
	for _, p := range packages(t) {
		name := p.name()
		if name == "internal/arch" {
			continue
		}
		if layerOf(name) < 0 {
			t.Errorf("%s has no layer: give it one in internal/arch", name)
			continue
		}
		for _, imp := range p.Imports {
			if to := within(imp); to != "" && !allowed(name, to) {
				t.Errorf("%s must not import %s: it is in layer %d, and that is in %d", name, to, layerOf(name), layerOf(to))
			}
		}
	}
}

func TestClientsStayLight(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		if !isClient(p.name()) {
			continue
		}
		seen[p.name()] = true
		for _, dep := range p.Deps {
			if barred(dep) {
				t.Errorf("%s depends on %s: clients must not", p.ImportPath, dep)
			}
		}
	}
	for _, name := range clients {
		if !seen[name] {
			t.Errorf("the client %s was not found: is the list up to date?", name)
		}
	}
}

func isClient(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return slices.Contains(clients, top) && !barred(module+"/"+name)
}

// barred reports whether clients must not depend on a package.
func barred(path string) bool {
	return slices.ContainsFunc(notForClients, func(no string) bool { return path == no || strings.HasPrefix(path, no+"/") })
}

// pure are the packages that do no I/O, and so can depend on nothing that does.
var pure = []string{"events", "events/policy", "events/core", "events/quickjson"}

func TestThePureCoreDependsOnNothingElse(t *testing.T) {
	seen := 0
	for _, p := range packages(t) {
		if !slices.Contains(pure, p.name()) {
			continue
		}
		seen++
		for _, dep := range p.Deps {
			if ours := within(dep); ours != "" && !slices.Contains(pure, ours) || dep == "net" || dep == "net/http" || strings.HasPrefix(dep, "github.com/nats-io/") || strings.HasPrefix(dep, "github.com/cockroachdb/") {
				t.Errorf("%s depends on %s", p.ImportPath, dep)
			}
		}
	}
	if seen != len(pure) {
		t.Errorf("found %d of the pure packages %v", seen, pure)
	}
}

// The playground is compiled to WebAssembly, and downloaded with the page that has it.
func TestThePlaygroundIsLight(t *testing.T) {
	seen := false
	for _, p := range packages(t) {
		if p.name() != "internal/playground" {
			continue
		}
		seen = true
		for _, dep := range p.Deps {
			if dep == "net" || dep == "net/http" || strings.HasPrefix(dep, "github.com/nats-io/") || strings.HasPrefix(dep, "github.com/cockroachdb/") {
				t.Errorf("%s depends on %s", p.ImportPath, dep)
			}
		}
	}
	if !seen {
		t.Error("the playground was not found")
	}
}

// withoutIO are packages that reach the outside only through what they are given.
var withoutIO = []string{"internal/playground", "projector/ready", "dispatcher/ackmode", "dispatcher/clock", "dispatcher/outflow", "dispatcher/seats", "dispatcher/errands", "dispatcher/lanes", "dispatcher/readyq", "dispatcher/registry", "dispatcher/retention", "dispatcher/schedules", "dispatcher/table"}

func TestPureOnesDoNoIO(t *testing.T) {
	found := 0
	for _, p := range packages(t) {
		if !slices.Contains(withoutIO, p.name()) {
			continue
		}
		found++
		for _, imp := range p.Imports {
			if imp == "net" || imp == "net/http" || imp == "os" || strings.HasPrefix(imp, "github.com/nats-io/") || within(imp) == "connect" || within(imp) == "dispatcher/natsio" {
				t.Errorf("%s must not import %s: it does no I/O of its own", p.name(), imp)
			}
		}
	}
	if found != len(withoutIO) {
		t.Errorf("%d of %d packages were found: is the list up to date?", found, len(withoutIO))
	}
}

func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"wire", "events", true},
		{"events", "wire", false},
		{"events", "events/core", false},
		{"events/policy", "events/core", false},
		{"events/core", "events/policy", true},
		{"wire", "events/core", false},
		{"wire/command", "events/core", true},
		{"eventlog", "wire", true},
		{"wire", "eventlog", false},
		{"eventlog", "eventlog/logtest", false},
		{"dispatcher", "eventlog/logtest", true},
		{"projector", "eventlog", true},
		{"kvstate", "projector", false},
		{"dispatcher", "projector", true},
		{"projector", "dispatcher", false},
		{"workers", "dispatcher", false},
		{"workers", "projector", false},
		{".", "workers", true},
		{"workers", ".", false},
		{".", "wire", true},
		{"cmd/engine", "embedded", true},
		{"cmd/engine", "cmd/internal/console", true},
		{"embedded", "cmd/engine", false},
		{"cmd/engine", "unknown", false},
		{"internal/unknown", "events", false},
	} {
		if got := allowed(c.from, c.to); got != c.want {
			t.Errorf("may %s import %s: %v", c.from, c.to, got)
		}
	}
}
