package core

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowedImports are all that the pure packages may import of others. None of them does I/O,
// unless it is asked to by a function that forbidden names.
var allowedImports = []string{
	"bytes", "cmp", "crypto/sha256", "encoding", "encoding/binary", "encoding/hex", "encoding/json", "errors", "fmt",
	"iter", "maps", "math", "math/bits", "slices", "sort", "strconv", "strings", "time",
	"unicode", "unicode/utf8", "github.com/cespare/xxhash/v2", "github.com/oklog/ulid/v2",
}

// forbidden are the functions of allowed packages that read a clock, wait,
// draw random numbers, or print.
var forbidden = map[string][]string{
	"time": {"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker", "Local", "LoadLocation"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"ulid": {"Make", "Now", "DefaultEntropy", "MustNewDefault", "Monotonic"},
}

// pure are the packages that are held to that, and what of ours each may import.
var pure = map[string][]string{
	"..":           {module + "/events/quickjson"},
	"../quickjson": nil,
	"../policy":    {module + "/events"},
	".":            {module + "/events", module + "/events/policy"},
}

const module = "github.com/streamwright/streamwright"

// The core is pure: see the package comment. Order of iteration over a map is
// the one thing that this can't see; the property tests compare decisions.
func TestTheCoreIsPure(t *testing.T) {
	for dir, ours := range pure {
		files, err := fs.Glob(os.DirFS(dir), "*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(dir, files, err)
		}
		for _, name := range files {
			if !strings.HasSuffix(name, "_test.go") {
				checkPure(t, filepath.Join(dir, name), ours)
			}
		}
	}
}

func checkPure(t *testing.T, name string, ours []string) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, imp := range f.Imports {
		path, _ := strconv.Unquote(imp.Path.Value)
		if !slices.Contains(allowedImports, path) && !slices.Contains(ours, path) || imp.Name != nil {
			t.Errorf("%s: import %s: not on the list of what the pure core may import, or renamed", fset.Position(imp.Pos()), imp.Path.Value)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		for _, what := range impure(n) {
			t.Errorf("%s: %s: the core must not use it", fset.Position(n.Pos()), what)
		}
		return true
	})
}

// impure names what a node has that a pure core must not have.
func impure(n ast.Node) []string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return []string{"a goroutine"}
	case *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
		return []string{"a channel"}
	case *ast.SelectorExpr:
		if pkg, ok := n.X.(*ast.Ident); ok && pkg.Obj == nil && slices.Contains(forbidden[pkg.Name], n.Sel.Name) {
			return []string{pkg.Name + "." + n.Sel.Name}
		}
	}
	return nil
}

func TestImpureIsSeen(t *testing.T) {
	const src = `package p
import "time"
func f(c chan int) { go f(c); c <- 1; _ = time.Now(); var t struct{ Now int }; _ = t.Now }`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := []string{}
	ast.Inspect(f, func(n ast.Node) bool {
		seen = append(seen, impure(n)...)
		return true
	})
	if got := strings.Join(seen, ", "); got != "a channel, a goroutine, a channel, time.Now" {
		t.Fatal(got)
	}
}
