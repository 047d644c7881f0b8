package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// top is the module's folder.
const top = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// source is the text of a function, as it stands in a file.
func source(t *testing.T, file, function string) string {
	t.Helper()
	text := read(t, file)
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == function {
			return text[set.Position(fn.Pos()).Offset:set.Position(fn.End()).Offset]
		}
	}
	t.Fatalf("%s has no function %s", file, function)
	return ""
}

var quoted = regexp.MustCompile("(?s)<!-- from (\\S+): (\\w+) -->\n```go\n(.*?)\n```")

// What these pages show of Go is compiled and run.
func TestCodeIsThatOfTheExamples(t *testing.T) {
	for _, name := range []string{"README.md", "docs/guides/FLOW.md", "docs/guides/WORKERS.md", "docs/guides/TESTING.md"} {
		page := read(t, name)
		blocks := quoted.FindAllStringSubmatch(page, -1)
		if n := strings.Count(page, "```go\n"); n != len(blocks) || n == 0 {
			t.Errorf("%s has %d blocks of Go, %d of them say which example they are", name, n, len(blocks))
		}
		for _, b := range blocks {
			if want := source(t, b[1], b[2]); b[3] != want {
				t.Errorf("%s shows another %s than %s, which has:\n%s", name, b[2], b[1], want)
			}
		}
	}
	// What the README promises of a client and a worker.
	for _, fn := range [][2]string{{"example_test.go", "submitGreeting"}, {"workers/example_test.go", "runGreeter"}} {
		if body := strings.Count(source(t, fn[0], fn[1]), "\n") - 1; body >= 15 {
			t.Errorf("%s takes %d lines, it should be under 15", fn[1], body)
		}
	}
}

// The test command stands on a line of its own, where CI finds it.
func TestCommandsStandOnTheirOwn(t *testing.T) {
	lines := strings.Split(read(t, "README.md"), "\n")
	for _, want := range []string{"go run ./cmd/engine demo", "go test ./..."} {
		if !slices.Contains(lines, want) {
			t.Errorf("README.md has no line that is %q", want)
		}
	}
}

var (
	link = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	// code has brackets of its own: Define[P, R]("kind") is no link.
	code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
)

// pages are all Markdown files that a reader of the documentation meets.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		all = append(all, found...)
	}
	return all
}

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", filepath.Base(page), m[1])
			}
		}
	}
}

// A path of a page in Go, in a script or in a deployment file is one that is there.
func TestPathsOfPagesExist(t *testing.T) {
	out, err := exec.Command("git", "-C", top, "grep", "-IohE", `docs/[a-zA-Z/_]+\.md`).Output()
	if err != nil {
		t.Skipf("git grep: %v", err) // not a checkout
	}
	for path := range strings.FieldsSeq(string(out)) {
		if _, err := os.Stat(filepath.Join(top, path)); err != nil {
			t.Errorf("a file names %s, which is not there", path)
		}
	}
}

// codes are the values of the constants of events/errors.go whose names begin
// with prefix.
func codes(t *testing.T, prefix string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "errors.go", read(t, "events/errors.go"), parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
			code, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, code)
		}
		return false
	})
	slices.Sort(out)
	return out
}

var row = regexp.MustCompile("(?m)^\\| `(\\w+)` \\|")

func TestErrorsAreAllListed(t *testing.T) {
	refused, failed, ok := strings.Cut(read(t, "docs/reference/ERRORS.md"), "## Codes of failed attempts")
	if !ok {
		t.Fatal("docs/reference/ERRORS.md has no part about failed attempts")
	}
	for prefix, text := range map[string]string{"Code": refused, "Fail": failed} {
		var listed []string
		for _, m := range row.FindAllStringSubmatch(text, -1) {
			listed = append(listed, m[1])
		}
		slices.Sort(listed)
		if want := codes(t, prefix); !slices.Equal(listed, want) {
			t.Errorf("docs/reference/ERRORS.md lists\n%v, events/errors.go has\n%v", listed, want)
		}
	}
}
