package main

import (
	"fmt"
	"go/types"
	"strings"
)

// appender writes the method that appends a struct.
func (g *generator) appender(name string, fields []field) {
	g.line("\nfunc (x *%s) appendJSON(w *quickjson.Writer) {\nat := w.Open()", name)
	g.guarded(fields, g.appendField)
	g.line("w.Close(at)\n}")
}

// guarded writes something for each field, where the embedded pointers that it is behind
// are not nil.
func (g *generator) guarded(fields []field, write func(field)) {
	guard := ""
	for _, f := range fields {
		if f.guard != guard {
			if guard != "" {
				g.line("}")
			}
			if guard = f.guard; guard != "" {
				g.line("if %s != nil {", guard)
			}
		}
		write(f)
	}
	if guard != "" {
		g.line("}")
	}
}

// appendField writes what appends one field, unless it is left out.
func (g *generator) appendField(f field) {
	label := fmt.Sprintf("`,%q:`", f.name)
	method, value := scalar(f.typ, f.expr)
	switch {
	case method == "Time" && f.zero, method != "" && method != "Time" && f.empty:
		g.line("w.Opt%s(%s, %s)", method, label, value)
		return
	case method != "" && !f.zero:
		g.line("w.%s(%s, %s)", method, label, value)
		return
	}
	if c := condition(f); c != "" {
		g.line("if %s {", c)
		defer g.line("}")
	}
	g.appendValue(label, f.expr, f.typ)
}

// condition is the condition on which a field is not left out, empty for always.
func condition(f field) string {
	t := f.typ
	switch u := t.Underlying().(type) {
	case *types.Slice, *types.Map:
		if f.empty {
			return "len(" + f.expr + ") > 0"
		}
	case *types.Pointer:
		if f.empty || f.zero {
			return f.expr + " != nil"
		}
	case *types.Basic:
		if f.empty || f.zero {
			switch {
			case u.Info()&types.IsString != 0:
				return f.expr + ` != ""`
			case u.Info()&types.IsBoolean != 0:
				return f.expr
			}
			return f.expr + " != 0"
		}
	default:
		switch {
		case f.zero && has(t, "IsZero"):
			return "!" + f.expr + ".IsZero()"
		case f.zero:
			return fmt.Sprintf("%s != (%s{})", f.expr, types.TypeString(t, func(*types.Package) string { return "" }))
		}
	}
	return ""
}

// scalar is the method of a Writer that appends a type, if there is one, and its argument.
func scalar(t types.Type, expr string) (method, value string) {
	switch qualified(t) {
	case "time.Time":
		return "Time", expr
	case duration:
		return "Int", strings.TrimPrefix(expr, "*") + ".Milliseconds()"
	}
	if has(t, "MarshalJSON") || has(t, "MarshalText") {
		return "", ""
	}
	convert := func(to string) string {
		if t.String() == to {
			return expr
		}
		return to + "(" + expr + ")"
	}
	switch info := basic(t); {
	case info&types.IsString != 0:
		return "Text", convert("string")
	case info&types.IsBoolean != 0:
		return "Bool", convert("bool")
	case info&types.IsUnsigned != 0:
		return "Uint", convert("uint64")
	case info&types.IsInteger != 0:
		return "Int", convert("int64")
	}
	return "", ""
}

// appendValue writes what appends a value behind a label.
func (g *generator) appendValue(label, expr string, t types.Type) {
	if p, ok := t.(*types.Pointer); ok && g.generated(p.Elem()) {
		g.line("w.Name(%s)\n%s.appendJSON(w)", label, expr)
		return
	} else if ok {
		if method, value := scalar(p.Elem(), "*"+expr); method != "" {
			g.line("w.%s(%s, %s)", method, label, value)
			return
		}
	}
	s, list := t.(*types.Slice)
	method, value := scalar(t, expr)
	switch {
	case method != "":
		g.line("w.%s(%s, %s)", method, label, value)
	case qualified(t) == "json.RawMessage" && g.strict:
		g.line("w.Document(%s, %s)", label, expr)
	case qualified(t) == "json.RawMessage":
		g.line("w.Raw(%s, %s)", label, expr)
	case has(t, "AppendText"):
		g.line("w.Word(%s, &%s)", label, expr)
	case g.generated(t):
		g.line("w.Name(%s)\n%s.appendJSON(w)", label, expr)
	case list && g.generated(s.Elem()):
		g.line("w.Name(%s)\nfor i := range %s {\nw.Element(i)\n%s[i].appendJSON(w)\n}\nw.Name(`]`)", label[:len(label)-1]+"[`", expr, expr)
	default:
		g.line("w.Any(%s, %s)", label, expr)
	}
}
