package main

import (
	"fmt"
	"go/types"
	"strconv"
	"strings"
)

// reader writes the method that reads a struct.
func (g *generator) reader(name string, fields []field) {
	if len(fields) > 64 {
		panic(name + " has more than 64 fields")
	}
	table := strings.ToLower(name[:1]) + name[1:] + "Fields"
	var names []string
	for _, f := range fields {
		names = append(names, strconv.Quote(f.name))
	}
	g.line("\nvar %s = []string{%s}\n", table, strings.Join(names, ", "))
	g.line("func (x *%s) readJSON(r *quickjson.Reader) {\nfor o := r.Object(%s); r.Next(&o); {\nswitch o.Field {", name, table)
	for i, f := range fields {
		g.line("case %d:", i)
		if f.guard != "" {
			g.line("%s = quickjson.Some(%s)", f.guard, f.guard)
		}
		g.readValue(f)
	}
	g.line("}\n}\n}")
}

// readValue writes what reads the value of a field.
func (g *generator) readValue(f field) {
	t := f.typ
	p, pointer := t.(*types.Pointer)
	s, list := t.(*types.Slice)
	switch {
	case pointer && g.generated(p.Elem()):
		g.line("%s = new(%s)\n%s.readJSON(r)", f.expr, g.typeName(p.Elem()), f.expr)
	case pointer && g.value(p.Elem(), false) != "":
		g.line("%s = new(%s)", f.expr, g.value(p.Elem(), false))
	case g.value(t, f.positive) != "":
		g.line("%s = %s", f.expr, g.value(t, f.positive))
	case has(t, "UnmarshalText") && !has(t, "UnmarshalJSON"):
		g.line("r.Check(%s.UnmarshalText(r.Word()))", f.expr)
	case g.generated(t):
		g.line("%s.readJSON(r)", f.expr)
	case list && g.generated(s.Elem()):
		elem := g.typeName(s.Elem())
		g.line("%s = []%s{}\nfor n := 0; r.Element(n); n++ {\n%s = append(%s, %s{})\n%s[n].readJSON(r)\n}", f.expr, elem, f.expr, f.expr, elem, f.expr)
	default:
		if g.strict && object(t) {
			panic(fmt.Sprintf("%s is an object within a request: add it to those that are generated", f.expr))
		}
		g.line("r.Any(&%s)", f.expr)
	}
}

// value is the expression that reads a type; empty if that takes more.
func (g *generator) value(t types.Type, positive bool) string {
	convert := func(to, expr string) string {
		if t.String() == to {
			return expr
		}
		return g.typeName(t) + "(" + expr + ")"
	}
	switch qualified(t) {
	case "time.Time":
		return "r.Time()"
	case "json.RawMessage":
		return "r.Raw()"
	case "map[string]string":
		return "r.Texts()"
	case duration:
		n := "r.Int(64)"
		if positive {
			n = "r.Positive(" + n + ")"
		}
		return fmt.Sprintf("%s{Duration: r.Millis(%s)}", g.typeName(t), n)
	}
	if has(t, "UnmarshalJSON") || has(t, "UnmarshalText") {
		return ""
	}
	switch info := basic(t); {
	case info&types.IsString != 0:
		return convert("string", "r.Text()")
	case info&types.IsBoolean != 0:
		return convert("bool", "r.Bool()")
	case info&types.IsUnsigned != 0:
		return convert("uint64", fmt.Sprintf("r.Uint(%d)", bits(t)))
	case info&types.IsInteger != 0 && positive:
		return convert("int64", fmt.Sprintf("r.Positive(r.Int(%d))", bits(t)))
	case info&types.IsInteger != 0:
		return convert("int64", fmt.Sprintf("r.Int(%d)", bits(t)))
	}
	return ""
}

// object reports whether there may be an object in a type that is not generated.
func object(t types.Type) bool {
	if has(t, "UnmarshalJSON") || has(t, "UnmarshalText") {
		return false
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return object(u.Elem())
	case *types.Slice:
		return object(u.Elem())
	case *types.Basic:
		return false
	}
	return true
}
