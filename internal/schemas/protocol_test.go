package schemas

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/wire"
)

const page = root + "/docs/reference/PROTOCOL.md"

// endpointTable is the table of endpoints in docs/reference/PROTOCOL.md.
func endpointTable() string {
	var b strings.Builder
	b.WriteString("| endpoint | request | reply | roles |\n|---|---|---|---|\n")
	name := func(t reflect.Type, e wire.Endpoint) string {
		if t.Kind() == reflect.Slice {
			return "array of `" + t.Elem().Name() + "`"
		}
		if e.Array {
			return "`" + t.Name() + "` or array"
		}
		return "`" + t.Name() + "`"
	}
	for _, e := range Endpoints() {
		stream := ""
		if e.Stream {
			stream = ", stream"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s%s | %s |\n", e.Name, name(e.Request, e), name(e.Reply, e), stream, strings.ReplaceAll(e.Roles.String(), ",", ", "))
	}
	return b.String()
}

// docs/reference/PROTOCOL.md has the endpoints as they are. Run with UPDATE_DOCS=1 to
// write them.
func TestProtocolPageIsCurrent(t *testing.T) {
	const begin, end = "<!-- begin: endpoints -->\n", "<!-- end: endpoints -->"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks %q and %q", page, begin, end)
	}
	want := head + begin + endpointTable() + end + tail
	if string(data) == want {
		return
	}
	if os.Getenv("UPDATE_DOCS") == "" {
		t.Fatalf("%s is not current: run UPDATE_DOCS=1 go test ./internal/schemas", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

var (
	statement = regexp.MustCompile(`(?m)^\| (\d+) \| ([^|]*) \| ([^|]*) \|$`)
	pointer   = regexp.MustCompile("`([^:`]+): ([^`]+)`")
)

// Every statement of the conformance list says MUST or SHOULD, and names tests
// that are there.
func TestConformanceListNamesTests(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(data), "<!-- begin: conformance -->")
	statements := statement.FindAllStringSubmatch(list, -1)
	if len(statements) < 20 {
		t.Fatalf("the list has %d statements", len(statements))
	}
	for i, s := range statements {
		if s[1] != fmt.Sprint(i+1) {
			t.Errorf("statement %s is the %d-th", s[1], i+1)
		}
		if !strings.Contains(s[2], "MUST") && !strings.Contains(s[2], "SHOULD") {
			t.Errorf("statement %s says neither MUST nor SHOULD", s[1])
		}
		tests := pointer.FindAllStringSubmatch(s[3], -1)
		if len(tests) == 0 {
			t.Errorf("statement %s names no test", s[1])
		}
		for _, test := range tests {
			if !thereIs(t, test[1], test[2]) {
				t.Errorf("statement %s: there is no test %s in %s", s[1], test[2], test[1])
			}
		}
	}
}

// thereIs looks for a test in a package, or in a file of the Node or the Python package.
func thereIs(t *testing.T, where, test string) bool {
	t.Helper()
	pattern, text := filepath.Join(root, where, "*_test.go"), "func "+test+"("
	if strings.HasSuffix(where, ".ts") {
		pattern, text = filepath.Join(root, "clients/node/test", where), `it("`+test+`"`
	}
	if strings.HasSuffix(where, ".py") {
		pattern, text = filepath.Join(root, "clients/python/tests", where), "def "+test+"("
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), text) {
			return true
		}
	}
	return false
}

// The table of endpoints is that of the engine: none is missing.
func TestEveryEndpointIsListed(t *testing.T) {
	listed := map[string]bool{}
	for _, e := range wire.Endpoints() {
		listed[e.Name] = true
	}
	files, err := filepath.Glob(filepath.Join(root, "wire", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`(?m)^\tAPI[A-Z]\w*\s*= "(\w+)"`)
	n := 0
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllStringSubmatch(string(data), -1) {
			if n++; !listed[m[1]] {
				t.Errorf("the endpoint %s is not in wire.Endpoints", m[1])
			}
		}
	}
	if n != len(listed) {
		t.Errorf("wire names %d endpoints, its table has %d", n, len(listed))
	}
}
