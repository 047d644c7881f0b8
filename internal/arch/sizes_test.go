package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Caps of code other than tests. Code that outgrows its cap is asking to be two
// things. Files have no cap: a split made for a file's length makes fragments.
const (
	maxPackage  = 7000 // lines
	maxMethods  = 60   // of one receiver
	maxFunction = 60   // lines
)

// oversized lists what is over its cap, with the size that it may not outgrow.
// When you make something smaller, lower its number or take its line out.
var oversized = map[string]int{}

func TestNothingOutgrowsItsCap(t *testing.T) {
	sizes, caps := measure(t)
	for name, size := range sizes {
		known, over := oversized[name], size > caps[name]
		switch {
		case !over && known > 0:
			t.Errorf("%s has %d, within the cap of %d: take it out of oversized", name, size, caps[name])
		case over && known == 0:
			t.Errorf("%s has %d: at most %d", name, size, caps[name])
		case over && size > known:
			t.Errorf("%s has %d and had %d: make it smaller, not larger", name, size, known)
		}
	}
	for name := range oversized {
		if _, ok := sizes[name]; !ok {
			t.Errorf("%s is gone: take it out of oversized", name)
		}
	}
}

// measure counts the lines of each package ("dispatcher") and function
// ("dispatcher.loop.run()"), and the methods of each receiver
// ("dispatcher.loop").
func measure(t *testing.T) (sizes, caps map[string]int) {
	sizes, caps = map[string]int{}, map[string]int{}
	add := func(name string, n, most int) {
		sizes[name] += n
		caps[name] = most
	}
	dir, fset := root(t), token.NewFileSet()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != dir && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		in := filepath.ToSlash(rel)
		add(in, fset.File(file.Pos()).LineCount(), maxPackage)
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := in + "."
			if of := receiver(fn); of != "" {
				add(name+of, 1, maxMethods)
				name += of + "."
			}
			if fn.Name.Name == "init" {
				continue // there may be several
			}
			add(name+fn.Name.Name+"()", fset.Position(fn.End()).Line-fset.Position(fn.Pos()).Line+1, maxFunction)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sizes, caps
}

// receiver is the type that a method is one of, empty for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	typ := fn.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
