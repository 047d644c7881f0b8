package schemas

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
)

// comments are the doc comments of types and fields, by package, type and
// field with dots between them.
type comments map[string]string

// readComments reads the comments of the packages in folders below root, by the last
// element of their path.
func readComments(root string, packages ...string) (comments, error) {
	c := comments{}
	for _, p := range packages {
		files, err := filepath.Glob(filepath.Join(root, p, "*.go"))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("read the comments of package %s: no Go files in %s: %w", p, root, fs.ErrNotExist)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, fmt.Errorf("read the comments of package %s: %w", p, err)
			}
			c.take(filepath.Base(p), f)
		}
	}
	return c, nil
}

func (c comments) take(pkg string, f *ast.File) {
	for _, d := range f.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok || gen.Tok != token.TYPE {
			continue
		}
		for _, s := range gen.Specs {
			spec := s.(*ast.TypeSpec)
			key := pkg + "." + spec.Name.Name
			c[key] = plain(spec.Doc)
			if c[key] == "" {
				c[key] = plain(gen.Doc)
			}
			if st, ok := spec.Type.(*ast.StructType); ok {
				c.takeFields(key, st)
			}
		}
	}
}

func (c comments) takeFields(key string, st *ast.StructType) {
	for _, f := range st.Fields.List {
		text := plain(f.Doc)
		if text == "" {
			text = plain(f.Comment)
		}
		for _, name := range f.Names {
			c[key+"."+name.Name] = text
		}
	}
}

// plain is a comment's text in one line for each paragraph.
func plain(g *ast.CommentGroup) string {
	if g == nil {
		return ""
	}
	var parser comment.Parser
	printer := comment.Printer{TextWidth: -1}
	return strings.TrimSpace(string(printer.Text(parser.Parse(g.Text()))))
}

func (c comments) of(t reflect.Type) string {
	if t == nil {
		return ""
	}
	return c[filepath.Base(t.PkgPath())+"."+t.Name()]
}

func (c comments) ofField(owner reflect.Type, name string) string {
	return c[filepath.Base(owner.PkgPath())+"."+owner.Name()+"."+name]
}
