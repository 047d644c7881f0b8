package main

import (
	"fmt"
	"go/types"
)

// sizer writes the method that bounds the length of a struct's JSON.
func (g *generator) sizer(name string, fields []field) {
	g.line("\nfunc (x *%s) maxJSON() int {\nn := len(`{}`)", name)
	g.guarded(fields, func(f field) {
		c := condition(f)
		if c != "" {
			g.line("if %s {", c)
		}
		g.line("n += len(`,%q:`) + %s", f.name, g.size(f.expr, f.typ))
		if c != "" {
			g.line("}")
		}
	})
	g.line("return n\n}")
}

// size is the expression that bounds the length of a value.
func (g *generator) size(expr string, t types.Type) string {
	if p, ok := t.(*types.Pointer); ok && (g.generated(p.Elem()) || basic(p.Elem())&types.IsInteger != 0 || qualified(p.Elem()) == duration) {
		return g.size(expr, p.Elem())
	}
	s, list := t.(*types.Slice)
	method, _ := scalar(t, expr)
	switch {
	case method == "Text":
		return fmt.Sprintf("quickjson.MaxText(len(%s))", expr)
	case method != "":
		return "quickjson.Max" + method
	case qualified(t) == "json.RawMessage":
		return fmt.Sprintf("max(len(%s), len(`null`))", expr)
	case has(t, "AppendText"):
		return "quickjson.MaxWord"
	case g.generated(t):
		return expr + ".maxJSON()"
	case list && g.generated(s.Elem()):
		return fmt.Sprintf("quickjson.MaxList(%s, (*%s).maxJSON)", expr, g.typeName(s.Elem()))
	}
	return fmt.Sprintf("quickjson.SizeOf(%s)", expr)
}
